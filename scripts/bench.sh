#!/bin/sh
# Runs berth's own benchmarks, each a bounded number of times: hot paths often, what takes seconds once or twice.
set -eu
cd "$(dirname "$0")/.."

bench() { # package, expression, times
	go test -tags hashicorpmetrics -run '^$' -benchmem -timeout 30m -bench "$2" -benchtime "$3" "$1"
}

bench ./state 'Fingerprint|Claim$|ClaimWriter|Alloc|NodeStatus|PluginPage' 500x
bench ./state 'PluginGet|VolumeList|ClaimStorm' 5x
bench ./state 'FleetBoot|Snapshot|Heap' 1x
bench ./state Capacity 1x
bench ./fsm . 5000x
bench ./endpoints . 5000x
bench ./rpc . 5000x
bench ./server 'Claim|Register|Heartbeat' 10000x
bench ./server List 20x
