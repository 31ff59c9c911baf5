#!/usr/bin/env bash
# Builds the peer's command line (Nomad v1.6.1) once into .cache/ and prints its path. test/interop runs it against
# berth.
set -euo pipefail
cd "$(dirname "$0")/../test/peer"
binary=$PWD/../../.cache/peer-v1.6.1
if [ ! -x "$binary" ]; then
	echo "building the peer's command line: about 3 minutes on two cores, only once" >&2
	mkdir -p "$(dirname "$binary")"
	GOFLAGS= go build -trimpath -buildvcs=false -tags codegen_generated -o "$binary.tmp" github.com/hashicorp/nomad >&2
	mv "$binary.tmp" "$binary"
	echo "built it in $SECONDS s" >&2
fi
realpath "$binary"
