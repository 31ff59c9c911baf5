#!/usr/bin/env bash
# Builds berth of the commit that the file RELEASED names once, from the git history into .cache/, and prints the
# path of the binary. It prints nothing if the history lacks the commit, as in a shallow clone. With the argument
# "test" it runs the tests of upgrades instead, which replace a cluster of that binary by bin/berth.
set -euo pipefail
cd "$(dirname "$0")/.."
commit=$(tr -d '[:space:]' <RELEASED)
if [ "$commit" = none ]; then # no version of the level of this one, so there is nothing to upgrade from
	echo "RELEASED names no commit yet" >&2
	[ "${1-}" != test ]
	exit
fi
folder=$PWD/.cache/released-${commit:0:12}
if [ ! -x "$folder/berth" ]; then
	if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
		echo "the history has no commit $commit, which RELEASED names: git fetch --unshallow" >&2
		[ "${1-}" != test ] # without the binary, the test of an upgrade fails
		exit
	fi
	echo "building berth of the released commit ${commit:0:12}: up to 2 minutes on two cores, only once" >&2
	rm -rf .cache/released-*
	mkdir -p "$folder/source"
	git archive "$commit" | tar -x -C "$folder/source"
	GOFLAGS="-buildvcs=false" make -s -C "$folder/source" build REVISION="${commit:0:12}" BIN="$folder/berth.tmp" >&2
	rm -rf "$folder/source"
	mv "$folder/berth.tmp" "$folder/berth"
	echo "built it in $SECONDS s" >&2
fi
if [ "${1-}" != test ]; then
	realpath "$folder/berth"
	exit
fi
export BERTH_UPGRADE=1 BERTH_RELEASED=$folder/berth BERTH_BIN=$PWD/bin/berth CGO_ENABLED=0
go test -tags hashicorpmetrics -count 1 -v -run TestUpgrade_ ./test/e2e
