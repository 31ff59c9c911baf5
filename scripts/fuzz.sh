#!/usr/bin/env bash
# Runs every fuzz target of berth and of its converter, each for FUZZTIME (20000 inputs), all within FUZZTOTAL seconds
# (1800). A target that finds a fault writes the input below its package's testdata/fuzz and ends the run with an error.
# Go minimizes each new input in ten runs. By default it spends a minute on that, and a target then tries only a few
# inputs.
set -euo pipefail
cd "$(dirname "$0")/.."
# A duration can end a run with "context deadline exceeded" although nothing is wrong (golang/go#75804).
each=${FUZZTIME:-20000x} total=${FUZZTOTAL:-1800}
mapfile -t targets < <(git ls-files -co --exclude-standard '*_test.go' ':!bench/peer/' ':!test/interop/' ':!test/driver/' ':!test/mock/' |
	xargs grep -oE '^func Fuzz[A-Za-z0-9_]+' /dev/null | sed -E 's/:func /:/' | sort)
[ "${#targets[@]}" -gt 0 ] || { echo "fuzz: found no target" >&2; exit 1; }
for target in "${targets[@]}"; do
	package=berth/$(dirname "${target%%:*}") name=${target##*:} module=.
	[[ $package/ != berth/convert/* ]] || module=convert
	left=$((total - SECONDS))
	[ "$left" -gt 0 ] || { echo "fuzz: $total s are over before $package $name; set FUZZTOTAL" >&2; exit 1; }
	echo "fuzz: $package $name"
	timeout -k 10 "$left" go test -C "$module" -tags hashicorpmetrics -run '^$' -fuzz "^$name\$" -fuzztime "$each" -fuzzminimizetime 10x "$package" ||
		{ echo "fuzz: $package $name failed, or took longer than the $left s that were left; see FUZZTOTAL" >&2; exit 1; }
done
echo "fuzz: ${#targets[@]} targets, $SECONDS s"
