#!/bin/sh
# Builds the programs that measure the peer and berth, each in its own module, and runs them in turn.
# Usage: scripts/bench-peer.sh [kind...]   kinds: state growth memory rpc (all, if none is given)
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
bin="$root/bin/bench"
mkdir -p "$bin"

cd "$root"
CGO_ENABLED=0 go build -trimpath -tags hashicorpmetrics -o "$bin/berth" ./cmd/berth
go build -trimpath -tags hashicorpmetrics -o "$bin/berth-bench" ./cmd/berth-bench
go test -tags hashicorpmetrics -c -o "$bin/berth-state.test" ./state
go test -tags hashicorpmetrics -c -o "$bin/berth-endpoints.test" ./endpoints

cd "$root/bench/peer"
go build -tags codegen_generated -o "$bin/peer-server" github.com/hashicorp/nomad
go build -tags codegen_generated -o "$bin/peer-load" ./cmd/load
go build -tags codegen_generated -o "$bin/peer-snapheap" ./cmd/snapheap
go test -tags codegen_generated -c -o "$bin/peer-state.test" ./statebench
go build -o "$bin/compare" ./cmd/compare

for kind in ${*:-state growth memory rpc}; do
	case $kind in rpc) rounds=2 ;; *) rounds=${ROUNDS:-3} ;; esac
	"$bin/compare" -bin "$bin" -kind "$kind" -rounds "$rounds" -metric "${METRIC:-ns/unit}" -o "$bin/$kind.json"
done
