#!/usr/bin/env bash
# Runs all tests: most with the race detector, and those that compute on one goroutine without it. Then run the
# tests of the built binary, and the public Go client and the command line of the dialect against the binary.
# `make test` first installs the packages that the tests need, and builds the binary. A random test that fails names
# its seed: BERTH_TEST_SEED=... repeats its choices.
set -euo pipefail
cd "$(dirname "$0")/.."
export BERTH_BIN=$PWD/bin/berth
# Like `make build`, so that both share what they compile, in any folder.
export GOFLAGS="${GOFLAGS-} -trimpath -gcflags=all=-dwarf=false"
tags=$(sed -n 's/^TAGS *:= *//p' Makefile)
export GORACE="${GORACE-} atexit_sleep_ms=100" # each of the many test processes sleeps a second at its end otherwise
BERTH_SKIPS=$(mktemp) # see internal/testskip
export BERTH_SKIPS
logs_dir=$(mktemp -d)
running=() # process groups
tell_skips() {
	[ ! -s "$BERTH_SKIPS" ] || { echo "test: skipped, because this machine lacks:" && sort -u "$BERTH_SKIPS"; } >&2
	rm -f "$BERTH_SKIPS"
}
end_all() {
	for group in "${running[@]}"; do
		kill -- "-$group" 2>/dev/null || true
	done
	rm -rf "$logs_dir"
	tell_skips
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
PEER_PLUGINS=$(./scripts/peer-plugins.sh)
export PEER_PLUGINS
PEER_BIN=$(./scripts/peer.sh)
export PEER_BIN
CONSUL_BIN=$(./scripts/consul.sh)
export CONSUL_BIN
BERTH_RELEASED=$(./scripts/upgrade.sh) # nothing if the history lacks the commit
export BERTH_RELEASED
command -v chromium >/dev/null 2>&1 || echo "Chromium, which the tests of the page need" >>"$BERTH_SKIPS"
AXE=$(./scripts/axe.sh) || echo "axe-core, which the tests of the page need" >>"$BERTH_SKIPS"
export AXE

# All start programs that the test cache does not know, so they run each time.
e2e=berth/test/e2e
guest=berth/test/guest
chaos=berth/test/chaos
release=berth/test/packages
# Most tests of these packages compute on one goroutine. The race detector has nothing to compare there, and makes
# them two to ten times as slow, so they run without it. Those that may start a goroutine run with it besides.
mapfile -t computing < <(go list -tags "$tags" ./scheduler/... ./state/... ./structs/... ./fsm ./jobspec/... \
	./internal/codec ./internal/codecgen ./internal/hclconf ./internal/archtest ./internal/racetests ./internal/sizes \
	./test/invariant ./test/refdocs ./test/simulate ./client/hooks/template | sed 's|^berth/||')
mapfile -t packages < <(go list -tags "$tags" ./... |
	grep -vxF "$(printf '%s\n' "$e2e" "$guest" "$chaos" "$release" "${computing[@]/#/berth/}")")
if [ "$(id -u)" -ne 0 ]; then
	echo "test: not root: skipping tests that mount file systems or start isolated tasks, and $e2e $guest $release" >&2
	e2e=
	guest=
	release=
fi
# The servers of these tests elect leaders within tenths of a second. Beside the other tests, at ten times as many
# processes as cores, some elections took minutes. So they run at the end, with nothing but a guest and the cluster of
# the package chaos beside them.
cluster=berth/test/cluster
mapfile -t packages < <(printf '%s\n' "${packages[@]}" | grep -vxF "$cluster")
# go test starts the packages in this order, each once. The longest are first, so that none of them runs alone at
# the end.
longest=(plugins/hostpath client endpoints client/drivers/docker client/drivers/external server cli client/hooks/artifact
	client/drivers/exec test/scenario api client/csi/volumes)
packages=("${longest[@]/#/berth/}" "${packages[@]}")
# Most tests wait for processes, elections and leases, so more of them than cores run at once.
many=$(($(nproc) + 2))

# -timeout ends a hang. A busy machine takes a multiple of the usual time, so the bounds are far from that.
# `make check` vets, once for all: go test would do so for each way in which it compiles, also what they import.
usual=(-tags "$tags" -timeout 30m -vet=off)

# The tests of the built binary need no race detector.
test_e2e() {
	[ -z "$e2e" ] || CGO_ENABLED=0 go test "${usual[@]}" -parallel "$many" -count 1 "$e2e"
}

# It is one process, and waits for its guest most of the time. It yields to the elections beside it.
test_guest() {
	[ -z "$guest" ] || CGO_ENABLED=0 nice go test "${usual[@]}" -count 1 "$guest"
}

# It makes packages of the built binary, and installs them.
test_release() {
	[ -z "$release" ] || CGO_ENABLED=0 nice go test "${usual[@]}" -count 1 "$release"
}

# It waits for most of its time, for the peer's command line.
test_interop() {
	export CGO_ENABLED=0
	cd test/interop
	# `make interop-tools` runs the programs of others.
	go test -tags "$tags" -parallel "$many" -timeout 30m -count 1 -skip TestTool ./...
}

# It drives a browser, and waits for it most of the time.
test_page() {
	[ -z "$e2e" ] || { cd test/ui && CGO_ENABLED=0 go test -timeout 30m -count 1 ./...; }
}

# The first one computes on one goroutine for long. The others compare the speed of requests, which the race detector
# changes.
unraced='^(TestAskedVolumes_OnACloudWithKillsAtEachStep|TestList_(PageCostsSame|SlowReader).*)$'

test_computing() {
	CGO_ENABLED=0 RAPID_CHECKS=50 GOGC=400 go test "${usual[@]}" "${computing[@]/#/./}" || return
	CGO_ENABLED=0 go test "${usual[@]}" -run "$unraced" ./server/control ./endpoints || return
	local starting
	starting=$(go run ./internal/racetests "${computing[@]}") || return
	while read -r folder tests; do
		go test -race "${usual[@]}" -run "$tests" "./$folder" || return
	done <<<"$starting"
}

# Without tables of symbols, the linker makes these hundreds of programs with an eighth less work. A panic still names
# its functions and lines.
test_packages() {
	go test -race -p "$many" "${usual[@]}" -skip "$unraced" -ldflags '-s -w' "${packages[@]}"
}

test_cluster() {
	go test -race "${usual[@]}" -parallel "$many" "$cluster"
}

# Its members are processes of their own. It waits for the ends of its faults.
test_chaos() {
	CGO_ENABLED=0 go test "${usual[@]}" -count 1 "$chaos"
}

# together runs functions beside each other, and prints the output of all but the last when all have ended.
status=0
together() {
	local group logs=()
	set -m # each in a process group of its own, which ends as a whole
	while [ "$#" -gt 1 ]; do
		logs+=("$logs_dir/$1")
		"$1" >"$logs_dir/$1" 2>&1 &
		running+=($!)
		shift
	done
	"$1" &
	running+=($!)
	set +m
	for group in "${running[@]}"; do
		wait "$group" || status=1
	done
	running=()
	[ "${#logs[@]}" -eq 0 ] || cat "${logs[@]}"
	echo "test: $SECONDS s have passed"
}

echo "test: go compiles everything for the race detector first: about 5 minutes on two cores, if its cache does not have it yet"
# Tests of processes wait for each other. Beside all others they would wait longer than anybody who runs berth.
together test_computing test_packages
together test_interop test_page test_e2e
together test_guest test_release test_chaos test_cluster
echo "test: took $SECONDS s, with what it built"
exit "$status"
