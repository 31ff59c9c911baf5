#!/bin/sh
# Builds the programs that measure the peer and berth, each in its own module, and runs them in turn.
# Usage: scripts/bench-peer.sh [kind...]   kinds: state growth memory capacity rpc list sched e2e (all, if none is given)
# The kind e2e mounts file systems and starts isolated tasks, so it needs root.
# ROUNDS=n overrides the number of rounds of each row on each side. The kind `build` alone only builds.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
bin="$root/bin/bench"
mkdir -p "$bin"

cd "$root"
commit=$(git rev-parse --short HEAD)
git diff --quiet HEAD -- '*.go' || commit="$commit, changed"
make -s build BIN="$bin/berth"
go build -trimpath -tags hashicorpmetrics -o "$bin/berth-bench" ./bench/load
go test -tags hashicorpmetrics -c -o "$bin/berth-state.test" ./state
go test -tags hashicorpmetrics -c -o "$bin/berth-sched.test" ./scheduler
go test -tags hashicorpmetrics -c -o "$bin/berth-endpoints.test" ./endpoints
go test -tags hashicorpmetrics -c -o "$bin/berth-mvcc.test" ./internal/mvcc
go test -tags hashicorpmetrics -c -o "$bin/berth-server.test" ./server

cd "$root/bench/peer"
go build -tags codegen_generated -o "$bin/peer-server" github.com/hashicorp/nomad
go build -tags codegen_generated -o "$bin/peer-load" ./cmd/load
go build -tags codegen_generated -o "$bin/peer-snapheap" ./cmd/snapheap
go build -tags codegen_generated -o "$bin/peer-fill" ./cmd/fill
go test -tags codegen_generated -c -o "$bin/peer-state.test" ./statebench
go test -tags codegen_generated -c -o "$bin/peer-sched.test" ./schedbench
go build -o "$bin/compare" ./cmd/compare
go build -o "$bin/bare" ./cmd/bare

# The programs that the tasks of the kind e2e see: a CSI driver, what it calls, and the writer of the jobs.
tools="$bin/tools"
mkdir -p "$tools/bin" "$tools/etc" "$tools/lib" "$tools/lib64"
echo 'bench:x:0:0::/:/bin/false' >"$tools/etc/passwd"
echo 'bench:x:0:' >"$tools/etc/group"
CGO_ENABLED=0 go build -o "$tools/bin/writer" ./cmd/writer
cd "$root/test/driver"
CGO_ENABLED=0 go build -ldflags "-X main.version=v1.7.2" -o "$tools/bin/hostpathplugin" \
	github.com/kubernetes-csi/csi-driver-host-path/cmd/hostpathplugin
for program in mount umount losetup findmnt; do
	path=$(command -v "$program")
	cp -L "$path" "$tools/bin/"
	ldd "$path" | grep -o '/[^ ]*' | while read -r library; do
		mkdir -p "$tools$(dirname "$library")"
		cp -Lu "$library" "$tools$library"
	done
done
cd "$root"

[ "${1:-}" != build ] || exit 0
for kind in ${*:-state growth memory capacity rpc list sched e2e}; do
	case $kind in growth | capacity) rounds=1 ;; memory) rounds=2 ;; *) rounds=3 ;; esac
	"$bin/compare" -bin "$bin" -kind "$kind" -rounds "${ROUNDS:-$rounds}" -metric "${METRIC:-ns/unit}" -commit "$commit" -o "$bin/$kind.json"
done
