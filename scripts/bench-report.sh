#!/bin/sh
# Measures all tables of docs/performance.md, beside the peer and alone, and writes the tables and the picture. On a
# quiet two-core machine it takes about 20 minutes, and four more to build the peer the first time. A part that fails
# keeps its old table, and the script then fails.
# Usage: scripts/bench-report.sh [part...]   parts: state rpc list sched e2e load overload memory capacity growth profiles (all, if none is given)
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
bin="$root/bin/bench"
cd "$root"
scripts/bench-peer.sh build
commit=$(git rev-parse --short HEAD)
git diff --quiet HEAD -- '*.go' || commit="$commit, changed"

failed=
for part in ${*:-state rpc list sched e2e load overload memory capacity growth profiles}; do
	begun=$(date +%s)
	case $part in
	load) "$bin/berth-bench" load -agent "$bin/berth" -time 800ms -commit "$commit" -json "$bin/load.json" ;;
	overload) "$bin/berth-bench" overload -agent "$bin/berth" -time 2500ms -commit "$commit" -json "$bin/overload.json" ;;
	profiles) scripts/bench-profiles.sh ;;
	*) scripts/bench-peer.sh "$part" ;;
	esac >"$bin/$part.txt" 2>"$bin/$part.log" || failed="$failed $part"
	cat "$bin/$part.txt"
	echo "$part took $(($(date +%s) - begun)) s; its progress is in $bin/$part.log"
done

cd "$root/bench/peer"
go run ./cmd/report -dir "$bin" -page "$root/docs/performance.md"
[ ! -e "$bin/growth.json" ] || go run ./cmd/plot -i "$bin/growth.json" -o "$root/docs/performance.svg"
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
