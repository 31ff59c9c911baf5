#!/bin/sh
# Measures all tables of docs/performance, beside the peer and alone, and writes the tables and the picture. On a
# quiet two-core machine it takes about 25 minutes, and four more to build the peer the first time. A part that fails
# keeps its old table, and the script then fails.
# Usage: scripts/bench-report.sh [part...]   parts: state rpc list sched e2e load overload events memory capacity growth
# (all, if none is given). The table of events is a text, which the page has by hand.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
bin="$root/bin/bench"
cd "$root"
scripts/bench-peer.sh build
commit=$(git rev-parse --short HEAD)
git diff --quiet HEAD -- '*.go' || commit="$commit, changed"

failed=
for part in ${*:-state rpc list sched e2e load overload events memory capacity growth}; do
	begun=$(date +%s)
	case $part in
	load) "$bin/berth-bench" load -agent "$bin/berth" -time 800ms -commit "$commit" -json "$bin/load.json" ;;
	overload) "$bin/berth-bench" overload -agent "$bin/berth" -time 2500ms -commit "$commit" -json "$bin/overload.json" ;;
	events) "$bin/berth-bench" events -agent "$bin/berth" ;;
	*) scripts/bench-peer.sh "$part" ;;
	esac >"$bin/$part.txt" 2>"$bin/$part.log" || failed="$failed $part"
	cat "$bin/$part.txt"
	echo "$part took $(($(date +%s) - begun)) s; its progress is in $bin/$part.log"
done

cd "$root/bench/peer"
go build -o "$bin/report" ./cmd/report
for page in "$root"/docs/performance/*.md; do
	# The program stops at a result whose table is not in the page, so it sees only those of the page.
	results=$(mktemp -d)
	for table in $(sed -n 's/^<!-- \([a-z0-9]*\): begin -->$/\1/p' "$page"); do
		file=$table.json
		[ "$table" != store ] || file=state.json
		[ ! -e "$bin/$file" ] || ln -s "$bin/$file" "$results/"
	done
	"$bin/report" -dir "$results" -page "$page"
	rm -r "$results"
done
[ ! -e "$bin/growth.json" ] || go run ./cmd/plot -i "$bin/growth.json" -o "$root/docs/performance/growth.svg"
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
