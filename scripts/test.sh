#!/usr/bin/env bash
# Runs all tests: the packages with the race detector, then the built binary from outside, then the public
# Go client of the dialect against it. `make test` builds the binary and installs what is needed first.
set -euo pipefail
cd "$(dirname "$0")/.."
export BERTH_BIN=$PWD/bin/berth

if [ "$(id -u)" -ne 0 ]; then
	echo "test: not root: tests that mount file systems or start isolated tasks say so and are left out" >&2
fi
outside=berth/test/e2e
mapfile -t packages < <(go list -tags hashicorpmetrics ./... | grep -v "^$outside\$")
go test -race -tags hashicorpmetrics -timeout 9m "${packages[@]}"
go test -tags hashicorpmetrics -timeout 5m -count 1 "$outside"
(cd test/interop && go test -timeout 5m -count 1 ./...)
