#!/usr/bin/env bash
# Runs all tests: the packages with the race detector, then those of the built binary, then the public Go client
# and the command line of the dialect against the binary. `make test` first installs the packages that the tests
# need, and builds the binary. A random test that fails names its seed: BERTH_TEST_SEED=... repeats its choices.
set -euo pipefail
cd "$(dirname "$0")/.."
export BERTH_BIN=$PWD/bin/berth
BERTH_SKIPS=$(mktemp) # see internal/testskip
export BERTH_SKIPS
tell_skips() {
	[ ! -s "$BERTH_SKIPS" ] || { echo "test: skipped, because this machine lacks:" && sort -u "$BERTH_SKIPS"; } >&2
	rm -f "$BERTH_SKIPS"
}
trap tell_skips EXIT
PEER_PLUGINS=$(./scripts/peer-plugins.sh)
export PEER_PLUGINS
# Both start programs that the test cache does not know, so they run each time.
outside=(berth/test/e2e berth/test/guest)

if [ "$(id -u)" -ne 0 ]; then
	echo "test: not root: skipping tests that mount file systems or start isolated tasks, and" \
		"${outside[*]}" >&2
fi
mapfile -t packages < <(go list -tags hashicorpmetrics ./... | grep -vxF "$(printf '%s\n' "${outside[@]}")")
# go test starts the packages in this order, each once. The longest are first, so that none of them runs alone at
# the end.
longest=(test/cluster plugins/hostpath state endpoints scheduler server client/csimanager client/drivers/docker client/drivers/external test/scenario client)
packages=("${longest[@]/#/berth/}" "${packages[@]}")
# Many packages mostly wait for elections and leases, so more packages than cores run at once.
go test -race -p "$(($(nproc) + 2))" -tags hashicorpmetrics -timeout 9m "${packages[@]}"
if [ "$(id -u)" -eq 0 ]; then
	# These tests mostly wait for processes and leases.
	go test -tags hashicorpmetrics -parallel "$(($(nproc) + 2))" -timeout 8m -count 1 "${outside[@]}"
fi
PEER_BIN=$(./scripts/peer.sh)
export PEER_BIN
(cd test/interop && go test -timeout 5m -count 1 ./...)
