#!/usr/bin/env bash
# Runs the tests of one command of the Makefile: test, race or all. scripts/tests.list says which packages belong to
# which. The Makefile installs the packages that the tests need, and builds the binary. A random test that fails names
# its seed: BERTH_TEST_SEED=... repeats its choices.
set -euo pipefail
cd "$(dirname "$0")/.."
command=${1:?test, race or all}
export BERTH_BIN=$PWD/bin/berth BERTH_CONVERT=$PWD/bin/berth-convert
# Like `make build`, so that both share what they compile, in any folder.
export GOFLAGS="${GOFLAGS-} -trimpath -gcflags=all=-dwarf=false"
tags=$(sed -n 's/^TAGS *:= *//p' Makefile)
export GORACE="${GORACE-} atexit_sleep_ms=100" # each of the many test processes sleeps a second at its end otherwise
BERTH_SKIPS=$(mktemp) # see test/kit
export BERTH_SKIPS
logs_dir=$(mktemp -d)
running=() # process groups
tell_skips() {
	[ ! -s "$BERTH_SKIPS" ] || { echo "$command: skipped, because this machine lacks:" && sort -u "$BERTH_SKIPS"; } >&2
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

# Most tests wait for processes, elections and leases, so more of them than cores run at once.
many=$(($(nproc) + 2))
# -timeout ends a hang. A busy machine takes a multiple of the usual time, so the bounds are far from that.
# `make check` vets, once for all: go test would do so for each way in which it compiles, also what they import.
usual=(-tags "$tags" -timeout 30m -vet=off)
stories='^TestStory_'
root=yes
if [ "$(id -u)" -ne 0 ]; then
	echo "$command: not root: skipping tests that mount file systems or start isolated tasks, and the built binary" >&2
	root=
fi

# listed prints the packages of a command, and with the argument single its single tests, as PACKAGE:TEST.
listed() { # COMMAND [single]
	awk -v command="$1" -v single="${2-}" '$1 == command && (index($2, ":") > 0) == (single != "") { print $2 }' scripts/tests.list
}

# Most tests of these packages compute on one goroutine. The race detector has nothing to compare there, and makes
# them two to ten times as slow, so they run without it. Those that may start a goroutine run with it besides.
computing_packages() {
	go list -tags "$tags" ./scheduler/... ./state/... ./structs/... ./fsm ./jobspec/... ./internal/codec \
		./tools/codecgen ./internal/conf ./internal/archtest ./tools/racetests ./tools/sizes \
		./test/invariant ./test/refdocs ./client/hooks/template | sed 's|^berth/||'
}

# own_packages prints the packages of `make test`. go test starts packages in the order of its arguments, each once.
# The longest are first, so that none of them runs alone at the end.
own_packages() {
	printf '%s\n' plugins/hostpath test/scenario scheduler agent client client/drivers/exec server server/control \
		endpoints cli client/hooks/artifact api client/csi/volumes
	go list -tags "$tags" ./... | sed 's|^berth/||'
}
mapfile -t elsewhere < <(listed race && listed all)
mapfile -t single_tests < <(listed all single)
mapfile -t own < <(own_packages | grep -vxF "$(printf '%s\n' "${elsewhere[@]}")")
singles="^($(printf '%s\n' "${single_tests[@]#*:}" | paste -sd '|'))\$"

# The tests that compute run with few draws: `make fuzz` and `make simulate` have many. The compilers collect no garbage
# below a limit, as for `make build`: a tenth less work.
test_own() {
	CGO_ENABLED=0 RAPID_CHECKS=30 GOGC=200 go test "${usual[@]}" -toolexec 'env GOGC=off GOMEMLIMIT=600MiB' \
		-ldflags '-s -w' -p "$many" -skip "$singles" "${own[@]/#/./}"
}

# The tests of the built binary start programs that the test cache does not know, so they run each time.
test_stories() {
	[ -z "$root" ] || CGO_ENABLED=0 go test "${usual[@]}" -parallel "$many" -count 1 -run "$stories" ./test/e2e ./test/machines
}

# Without tables of symbols, the linker makes these hundreds of programs with an eighth less work. A panic still names
# its functions and lines. The tests of the last option compare the speed of requests, which the race detector changes,
# or compute on one goroutine for long.
unraced='TestAskedVolumes_OnACloudWithKillsAtEachStep|TestModel_HoldsInAllInterleavings|TestList_(PageCostsSame|SlowReader).*'
test_race() {
	local computing racing starting
	mapfile -t computing < <(computing_packages)
	mapfile -t racing < <(printf '%s\n' "${own[@]}" | grep -vxF "$(printf '%s\n' "${computing[@]}")")
	RAPID_CHECKS=50 go test -race -p "$many" "${usual[@]}" -skip "${singles%)\$}|$unraced)\$" -ldflags '-s -w' \
		"${racing[@]/#/./}" || return
	starting=$(go run ./tools/racetests "${computing[@]}") || return
	while read -r folder tests; do
		go test -race "${usual[@]}" -run "$tests" "./$folder" || return
	done <<<"$starting"
}

# The servers of these tests elect leaders within tenths of a second. Beside the other tests, at ten times as many
# processes as cores, some elections took minutes. So they run at the end.
test_cluster() {
	mapfile -t clusters < <(listed race)
	go test -race "${usual[@]}" -parallel "$many" "${clusters[@]/#/./}"
}

# The programs of others that the packages of the command all need.
get_others() {
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
}

# Drivers and Consul run with the race detector, as the packages beside them.
test_others() {
	local packages
	mapfile -t packages < <(listed all | grep -vE '^(test|convert)(/|$)' | grep -vx packaging/man)
	go test -race -p "$many" "${usual[@]}" -ldflags '-s -w' "${packages[@]/#/./}" || return
	local single race
	for single in "${single_tests[@]}"; do
		race=1
		[[ ! ${single#*:} =~ ^($unraced)$ ]] || race=0
		CGO_ENABLED=$race go test -race="$race" "${usual[@]}" -run "^${single#*:}\$" "./${single%:*}" || return
	done
}

test_generated() {
	CGO_ENABLED=0 go test "${usual[@]}" ./packaging/man ./test/site ./test/csirandom ./test/csisanity ./test/simulate
}

test_e2e() {
	[ -z "$root" ] || CGO_ENABLED=0 go test "${usual[@]}" -parallel "$many" -count 1 -skip "$stories" ./test/e2e ./test/machines
}

# It is one process, and waits for its guest most of the time. It yields to the tests beside it.
test_guest() {
	[ -z "$root" ] || CGO_ENABLED=0 nice go test "${usual[@]}" -count 1 ./test/guest
}

# It makes packages of the built binary, and installs them.
test_packages() {
	[ -z "$root" ] || CGO_ENABLED=0 nice go test "${usual[@]}" -count 1 ./test/packages
}

# It waits for most of its time, for the peer's command line.
test_interop() {
	export CGO_ENABLED=0
	cd test/interop
	# `make interop-tools` runs the programs of others.
	go test -tags "$tags" -parallel "$many" -timeout 30m -count 1 -skip TestTool ./...
}

# It is a module of its own, whose packages `make test` does not list.
test_convert() {
	export CGO_ENABLED=0
	cd convert
	go test "${usual[@]}" ./...
}

# It drives a browser, and waits for it most of the time.
test_page() {
	[ -z "$root" ] || { cd test/ui && CGO_ENABLED=0 go test -timeout 30m -count 1 ./...; }
}

# Its members are processes of their own. It waits for the ends of its faults.
test_chaos() {
	CGO_ENABLED=0 go test "${usual[@]}" -count 1 ./test/chaos
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
	echo "$command: $SECONDS s have passed"
}

case $command in
test)
	echo "test: go compiles everything first: some minutes on two cores, if its cache does not have it yet"
	# The stories wait for most of their time, so they cost little beside the others.
	together test_stories test_own
	;;
race)
	echo "race: go compiles everything for the race detector first: about 5 minutes on two cores, if its cache does not have it yet"
	together test_race
	together test_cluster
	;;
all)
	get_others
	# Tests of processes wait for each other. Beside all others they would wait longer than anybody who runs berth.
	together test_generated test_convert test_others
	together test_interop test_page test_e2e
	together test_guest test_packages test_chaos
	;;
*)
	echo "$command: no such command: test, race or all" >&2
	exit 2
	;;
esac
echo "$command: took $SECONDS s, with what it built"
exit "$status"
