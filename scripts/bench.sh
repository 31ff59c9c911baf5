#!/bin/sh
# Runs berth's own benchmarks, each for a bounded time - hot paths with the collector in it, what takes seconds once or
# twice - and then one and three servers, processes of their own, under load and under too much of it. It takes about
# 12 minutes on two cores that nobody else uses.
set -eu
cd "$(dirname "$0")/.."

bench() { # package, expression, for how long or how many times
	go test -tags hashicorpmetrics -run '^$' -benchmem -timeout 30m -bench "$2" -benchtime "$3" "$1"
}

bench ./state '(Fingerprint|FingerprintDiff|FingerprintNoPlugin|Claim|ClaimWriter|AllocUpdate|AllocEnds|NodeStatus|TreeAlone)$' 500ms
bench ./state '(PluginGet|PluginPage|VolumeList|ClaimStorm|ClaimStormBatched)$' 200ms
bench ./state '(FleetBoot|FleetBootBatched|Snapshot|Heap)$' 1x
bench ./state 'Capacity$' 1x
bench ./fsm . 200ms
bench ./endpoints . 200ms
bench ./rpc . 5000x
bench ./server 'RPC(ClaimWrite|ClaimRead|NodeRegister|NodeUpdate|Heartbeat)$' 10000x
bench ./server VolumeRegister 500x
bench ./server List 20x

mkdir -p bin/bench
CGO_ENABLED=0 go build -trimpath -tags hashicorpmetrics -o bin/bench/berth ./cmd/berth
go build -trimpath -tags hashicorpmetrics -o bin/bench/berth-bench ./bench/load
bin/bench/berth-bench load -agent bin/bench/berth -time 500ms
bin/bench/berth-bench overload -agent bin/bench/berth -time 2s
