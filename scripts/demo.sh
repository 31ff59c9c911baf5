#!/usr/bin/env bash
# From a job file to a mounted volume and back, on this machine: a -dev agent in a scratch directory, the
# hostpath plugin as a system job, a volume, a job that writes to it, stopped and started again. It leaves
# nothing behind, also when a step fails.
set -euo pipefail
cd "$(dirname "$0")/.."

[ "$(id -u)" -eq 0 ] || { echo "demo: run as root: it mounts file systems" >&2; exit 1; }
berth=$PWD/bin/berth
scratch=$(mktemp -d /tmp/berth-demo.XXXXXX)
agent=
mark= # the part of the volumes' ids that names this node

step() { printf '\n== %s\n' "$*"; }

stop_agent() {
	[ -n "$agent" ] || return 0
	kill -TERM "$agent" 2>/dev/null || true
	for _ in $(seq 150); do
		kill -0 "$agent" 2>/dev/null || break
		sleep 0.1
	done
	kill -KILL "$agent" 2>/dev/null || true
	wait "$agent" 2>/dev/null || true
	agent=
}

# await repeats a command until it succeeds.
await() {
	what=$1
	shift
	for _ in $(seq 300); do
		"$@" && return 0
		sleep 0.1
	done
	echo "demo: waited in vain until $what" >&2
	return 1
}
healthy() { [ "$("$berth" plugin status -t '{{.NodesHealthy}}' hostpath 2>/dev/null)" = 1 ]; }
released() { [ "$("$berth" volume status -t '{{len .Claims}}' counter)" = 0 ]; }

first_line() {
	line=$("$berth" alloc logs "$first" 2>/dev/null | sed -n 2p)
	[ -n "$line" ]
}
found_lines() {
	found=$("$berth" alloc logs "$second" 2>/dev/null | sed -n 's/^found \([0-9]*\) lines$/\1/p')
	[ -n "$found" ]
}

# leftovers lists the mounts, loop devices and processes of the demo.
leftovers() {
	grep -F "$scratch" /proc/self/mounts || true
	for f in /sys/block/loop*/loop/backing_file; do # its path is the one that the plugin's task sees
		[ -n "$mark" ] && [ -e "$f" ] && grep -H -- "-$mark/" "$f" || true
	done
	pgrep -af -- "$scratch" || true
}

finish() {
	code=$?
	trap - EXIT
	stop_agent
	left=$(leftovers)
	if [ -n "$left" ]; then
		echo "demo: left behind:" >&2
		echo "$left" >&2
		[ "$code" -ne 0 ] || code=1
		grep -F "$scratch" /proc/self/mounts | awk '{print $2}' | sort -r | xargs -r -n1 umount -l || true
	fi
	if [ "$code" -ne 0 ]; then
		echo "demo: failed; the agent's log ends with:" >&2
		tail -n 40 "$scratch/agent.log" >&2 || true
	fi
	rm -rf --one-file-system "$scratch"
	[ "$code" -eq 0 ] && echo "demo: ok"
	exit "$code"
}
trap finish EXIT

step "start an agent: server, node and HTTP API in one process"
"$berth" agent -dev -data-dir "$scratch/data" -http-port 0 -rpc-port 0 -serf-port 0 \
	>"$scratch/agent.out" 2>"$scratch/agent.log" &
agent=$!
for _ in $(seq 100); do
	BERTH_ADDR=$(sed -n 's/^HTTP API: *//p' "$scratch/agent.out")
	[ -n "$BERTH_ADDR" ] && "$berth" node status -address "$BERTH_ADDR" 2>/dev/null | grep -q ready && break
	kill -0 "$agent" 2>/dev/null || { echo "demo: the agent ended" >&2; exit 1; }
	sleep 0.1
done
export BERTH_ADDR
"$berth" node status
mark=$("$berth" node status -self -t '{{.ID}}' | tr -d '\n' | sha256sum | cut -c1-8)

step "run the hostpath plugin as a system job (examples/hostpath.hcl)"
"$berth" job run examples/hostpath.hcl
await "the plugin is healthy" healthy
"$berth" plugin status hostpath

step "create a volume (examples/volume.hcl)"
"$berth" volume create examples/volume.hcl

step "run a service that writes to it (examples/counter.hcl)"
began=$(date +%s%N)
"$berth" job run examples/counter.hcl
running() {
	"$berth" alloc status -t '{{range .}}{{if and (eq .JobID "counter") (eq .DesiredStatus "run")}}{{.ID}}{{"\n"}}{{end}}{{end}}' | head -n 1
}
first=$(running)
await "a line is written" first_line
wrote=$(echo "$line" | cut -d' ' -f1 | tr -d .)
first_write_ms=$(((wrote - began) / 1000000))
"$berth" alloc logs "$first"
"$berth" volume status counter

step "stop the job: the volume is unpublished, unstaged and released"
"$berth" job stop counter
await "the volume is released" released
"$berth" volume status counter

step "run it again: the data is still there"
"$berth" job run examples/counter.hcl
second=$(running)
await "it prints the number of lines" found_lines
echo "allocation ${second%%-*} found $found lines that allocation ${first%%-*} wrote"
[ "$found" -gt 0 ]

step "status of plugin, volume and allocation"
"$berth" plugin status hostpath
"$berth" volume status counter
"$berth" alloc status "$second"

step "the memory of the agent"
rss_kb=$(awk '/^VmRSS/ {print $2}' "/proc/$agent/status")
echo "resident memory: $((rss_kb / 1024)) MB"

step "clean up"
"$berth" job stop -purge counter
await "the volume is released" released
"$berth" volume delete counter
"$berth" job stop -purge hostpath
stop_agent
[ -z "$(leftovers)" ]

step "measured"
printf 'first write after job run: %5d ms   (aim: under 1000)\n' "$first_write_ms"
printf 'agent memory:              %5d MB   (aim: under 96 when idle)\n' "$((rss_kb / 1024))"
printf 'binary size:               %5d MB   (aim: under 80)\n' "$(($(stat -c %s "$berth") / 1048576))"
