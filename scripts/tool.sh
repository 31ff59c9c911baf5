#!/usr/bin/env bash
# Builds a pinned Go program ($1: PACKAGE@VERSION, as the Makefile has it) once into .cache/ and prints its path. `go run`
# would ask the module proxy for the module of such a package each time.
set -euo pipefail
cd "$(dirname "$0")/.."
package=${1%@*} version=${1##*@}
if [ "$package" = "$1" ] || [[ $version != v[0-9]* ]]; then
	echo "tool.sh: \"$1\" is no program with a version; expected for example example.org/cmd/program@v1.2.3" >&2
	exit 2
fi
# A linter must be as new as the Go of the code.
binary=$PWD/.cache/${package##*/}-$version-$(go env GOVERSION)
if [ ! -x "$binary" ]; then
	echo "building ${package##*/} $version: half a minute to 5 minutes on two idle cores, only once" >&2
	mkdir -p .cache
	work=$(mktemp -d -p "$PWD/.cache")
	trap 'rm -rf "$work"' EXIT
	# The program runs here, whatever a release is made for.
	GOFLAGS='' GOOS='' GOARCH='' CGO_ENABLED=0 GOBIN=$work go install -trimpath -ldflags '-s -w' "$1" >&2
	mv "$work/${package##*/}" "$binary"
	echo "built it in $SECONDS s" >&2
fi
echo "$binary"
