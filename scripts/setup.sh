#!/usr/bin/env bash
# Installs the tools that an argument needs beyond Go: test (the tests of `make test` and `make test-race`, which make
# and mount file systems, and networks), demo, site (the generator of the site), or all (the tests of `make test-all`).
set -euo pipefail
purpose=${1:-all}

missing=()
need() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
if [ "$purpose" = site ] || [ "$purpose" = all ]; then
	need mkdocs mkdocs
fi
if [ "$purpose" != site ]; then
	need losetup util-linux
	need findmnt util-linux
	need mkfs.ext4 e2fsprogs
fi
if [ "$purpose" = test ] || [ "$purpose" = all ]; then
	need resize2fs e2fsprogs
	need mkfs.xfs xfsprogs
	need ip iproute2
	need iptables iptables
fi
if [ "$purpose" = all ]; then
	[ -e /usr/lib/cni/bridge ] || missing+=(containernetworking-plugins)
	need curl curl
	need jq jq
	need python3 python3
	need dockerd docker.io
	need rpm rpm
	need groff groff-base
	need man man-db
	need systemd-analyze systemd
	need chromium chromium
	need npm npm
	compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || missing+=(postgresql)
fi
# A kernel that runs as a process (41 MB), for tests of features that the kernel of this machine may lack. Not every
# distribution has it.
optional=()
if [ "$purpose" = all ] && [ "$(uname -m)" = x86_64 ] && [ "$(id -u)" -eq 0 ] && ! command -v linux.uml >/dev/null 2>&1; then
	optional=(user-mode-linux)
fi

[ $((${#missing[@]} + ${#optional[@]})) -eq 0 ] && exit 0
if [ ${#missing[@]} -gt 0 ] && { [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; }; then
	echo "please install: ${missing[*]}" >&2
	exit 1
fi
command -v apt-get >/dev/null 2>&1 || exit 0
echo "installing: ${missing[*]} ${optional[*]}; 5 s to two minutes, by the connection, only once"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
install() { apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
# The package of PostgreSQL would make and start a server. The tests start one of their own.
no_server=/etc/postgresql-common/createcluster.d/berth-tests.conf
if [[ " ${missing[*]} " == *" postgresql "* ]]; then
	mkdir -p "${no_server%/*}"
	echo 'create_main_cluster = false' >"$no_server"
	trap 'rm -f "$no_server"' EXIT
fi
[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"
[ ${#optional[@]} -eq 0 ] || install "${optional[@]}" || echo "not available: ${optional[*]}" >&2
