#!/usr/bin/env bash
# Runs all tests: the packages with the race detector, then the built binary from outside, then the public
# Go client and the command line of the dialect against it. `make test` builds the binary and installs what is
# needed first. A random test that fails names its seed: BERTH_TEST_SEED=... has the same chance again.
set -euo pipefail
cd "$(dirname "$0")/.."
export BERTH_BIN=$PWD/bin/berth
BERTH_SKIPS=$(mktemp) # see internal/testskip
export BERTH_SKIPS
tell_skips() {
	[ ! -s "$BERTH_SKIPS" ] || { echo "test: skipped for what this machine lacks:" && sort -u "$BERTH_SKIPS"; } >&2
	rm -f "$BERTH_SKIPS"
}
trap tell_skips EXIT
# Both build or start programs of their own, of which the test cache does not know; so they are run anew each time.
outside=(berth/test/e2e berth/test/guest)

if [ "$(id -u)" -ne 0 ]; then
	echo "test: not root: tests that mount file systems or start isolated tasks are skipped;" \
		"left out: ${outside[*]}" >&2
fi
mapfile -t packages < <(go list -tags hashicorpmetrics ./... | grep -vxF "$(printf '%s\n' "${outside[@]}")")
# go test starts packages in this order and each once: first those that take longest, so that none of them
# runs alone at the end.
longest=(test/cluster plugins/hostpath state endpoints scheduler server client/csimanager test/scenario client)
packages=("${longest[@]/#/berth/}" "${packages[@]}")
# Many packages wait for elections and leases more than they compute: more of them at once than there are cores.
go test -race -p "$(($(nproc) + 2))" -tags hashicorpmetrics -timeout 9m "${packages[@]}"
if [ "$(id -u)" -eq 0 ]; then
	# These tests wait for processes, and after a restore for leases, more than they compute, too.
	go test -tags hashicorpmetrics -parallel "$(($(nproc) + 2))" -timeout 8m -count 1 "${outside[@]}"
fi
PEER_BIN=$(./scripts/peer.sh)
export PEER_BIN
(cd test/interop && go test -timeout 5m -count 1 ./...)
