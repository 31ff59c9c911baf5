#!/bin/sh
# Runs berth's own benchmarks, each for a bounded time: hot paths with their share of the collector, and once those
# that take seconds. Then it runs one and three servers as processes under load and under overload, and one
# with readers of events. It takes about 12 minutes on two cores without other users.
set -eu
cd "$(dirname "$0")/.."

bench() { # package, expression, duration or number of rounds
	go test -tags hashicorpmetrics -run '^$' -benchmem -timeout 30m -bench "$2" -benchtime "$3" "$1"
}

bench ./state '(Fingerprint|FingerprintDiff|FingerprintNoPlugin|Claim|ClaimWriter|AllocUpdate|AllocEnds|NodeStatus)$' 500ms
bench ./state '(PluginGet|PluginPage|VolumeList|ClaimStorm|ClaimStormBatched)$' 200ms
bench ./state '(FleetBoot|FleetBootBatched|Snapshot|Heap)$' 1x
bench ./state 'Capacity$' 1x
bench ./internal/mvcc TreeAlone 500ms
bench ./fsm . 200ms
bench ./endpoints . 200ms
bench ./rpc . 5000x
bench ./server 'RPC(ClaimWrite|ClaimRead|NodeRegister|NodeUpdate|Heartbeat)$' 10000x
bench ./server VolumeRegister 500x
bench ./server List 20x

mkdir -p bin/bench
make -s build BIN=bin/bench/berth
go build -trimpath -tags hashicorpmetrics -o bin/bench/berth-bench ./bench/load
bin/bench/berth-bench load -agent bin/bench/berth -time 500ms
bin/bench/berth-bench overload -agent bin/bench/berth -time 2s
bin/bench/berth-bench events -agent bin/bench/berth -rounds 1 -time 2s
