#!/usr/bin/env bash
# Prints the path of an overlay for `go build`. A program that is built with it adds a number of seconds to its wall
# clock: see test/stepclock. The overlay changes one line of the package time of the Go that builds it.
set -euo pipefail
cd "$(dirname "$0")/.."

from=$(go env GOROOT)/src/time
dir=$PWD/.cache/stepped-$(go env GOVERSION)
line='sec, nsec, mono := runtimeNow()'
mkdir -p "$dir"
sed "/^func Now() Time {/,/^}/s/$line/&\n\tsec += step()/" "$from/time.go" >"$dir/time.go"
if ! grep -q 'sec += step()' "$dir/time.go"; then
	echo "stepped: $from/time.go does not read the clock with: $line" >&2
	exit 1
fi
cat >"$dir/overlay.json" <<END
{"Replace": {
	"$from/time.go": "$dir/time.go",
	"$from/step.go": "$PWD/test/stepclock/testdata/step.go"
}}
END
echo "$dir/overlay.json"
