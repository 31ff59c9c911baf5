#!/bin/sh
# Writes docs/profiles: the CPU, memory and waiting of the hot paths, as text. Each profile has the 25 first functions
# by their own share (flat) and by their cumulative share (cum). It contains the filling of the server. It also
# contains both ends of the connections, because load and server are one process.
# Usage: scripts/bench-profiles.sh [name...]   names: claim-write node-update claim-state (all, if none is given)
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p docs/profiles

profile() { # name, package, benchmark, times
	go test -tags hashicorpmetrics -c -o "$tmp/test" "$2"
	run() { (cd "$2" && "$tmp/test" -test.run '^$' -test.bench "$3" -test.benchtime "$4" -test.benchmem $5); }
	run "$1" "$2" "$3" "$4" "-test.cpuprofile $tmp/cpu" >"$tmp/out" # alone, because the others cost time
	run "$1" "$2" "$3" "$4" "-test.memprofilerate 16384 -test.memprofile $tmp/mem -test.mutexprofile $tmp/mutex -test.mutexprofilefraction 5
		-test.blockprofile $tmp/block -test.blockprofilerate 10000" >"$tmp/out2"
	{
		echo "# $1: $3 of $2, $4, commit $(git rev-parse --short HEAD)"
		echo "# scripts/bench-profiles.sh $1"
		grep '^Benchmark' "$tmp/out" | tail -1
		top "CPU" "$tmp/cpu" cpu
		top "memory allocated (the whole run)" "$tmp/mem" alloc_space
		top "memory in use at the end" "$tmp/mem" inuse_space
		top "mutexes: time that others waited for them" "$tmp/mutex" delay
		top "blocked: time waited, for others and for work" "$tmp/block" delay
	} >"docs/profiles/$1.txt"
	echo "docs/profiles/$1.txt"
}

top() { # title, profile, sample index
	for by in flat cum; do
		printf '\n## %s, by %s\n\n' "$1" "$by"
		go tool pprof -top "-$by" -nodecount 25 -sample_index "$3" "$tmp/test" "$2" 2>/dev/null | sed -e '/^\(File\|Type\|Time\|Build ID\|Duration\)/d' -e 's/[[:space:]]*$//' \
			-e 's/\[go\.shape\..*/[...]/' | cut -c1-150
	done
}

for name in ${*:-claim-write node-update claim-state}; do
	case $name in
	claim-write) profile "$name" ./server 'RPCClaimWrite$/^V=10000$' 100000x ;;
	node-update) profile "$name" ./server 'RPCNodeUpdate$/^N=10000$' 100000x ;;
	claim-state) profile "$name" ./state 'Claim$/^R=1$' 100000x ;;
	*) echo "no profile is called $name" >&2; exit 2 ;;
	esac
done
