#!/usr/bin/env bash
# Builds the peer's drivers and its example device plugin (Nomad v1.6.1) once as external plugins and prints the
# directory that has them: peer_raw_exec, peer_exec and example-device. The tests of external plugins run them.
set -euo pipefail
cd "$(dirname "$0")/../test/peer"
plugins=$PWD/../../.cache/peer-plugins-v1.6.1
# A clone has newer files than a cache that was copied into it, so the sum of the sources tells what is built.
sources=$(find go.mod go.sum external rawexec exec -type f | LC_ALL=C sort | xargs sha256sum | sha256sum)
build() { # PACKAGE NAME EXPECTED TIME
	if [ -x "$plugins/$2" ] && [ "$sources" = "$(cat "$plugins/$2.sources" 2>/dev/null)" ]; then
		return
	fi
	echo "building the peer's plugin $2: $3 on two cores, only once" >&2
	local start=$SECONDS
	mkdir -p "$plugins"
	GOFLAGS= go build -trimpath -buildvcs=false -tags codegen_generated -o "$plugins/$2.tmp" "$1" >&2
	mv "$plugins/$2.tmp" "$plugins/$2"
	echo "$sources" >"$plugins/$2.sources"
	echo "built it in $((SECONDS - start)) s" >&2
}
build ./rawexec peer_raw_exec 'about 2 minutes'
build ./exec peer_exec 'some seconds'
build github.com/hashicorp/nomad/plugins/device/cmd/example/cmd example-device 'some seconds'
realpath "$plugins"
