#!/usr/bin/env bash
# Builds a Consul agent (v1.15.4) once into .cache/ and prints its path. The tests that register services run it.
set -euo pipefail
cd "$(dirname "$0")/../test/consul"
binary=$PWD/../../.cache/consul-v1.15.4
if [ ! -x "$binary" ]; then
	echo "building the Consul agent: about 3 minutes on two cores, only once" >&2
	mkdir -p "$(dirname "$binary")"
	GOFLAGS= go build -trimpath -buildvcs=false -o "$binary.tmp" github.com/hashicorp/consul >&2
	mv "$binary.tmp" "$binary"
	echo "built it in $SECONDS s" >&2
fi
realpath "$binary"
