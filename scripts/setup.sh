#!/usr/bin/env bash
# Installs what the tests and the demo need beyond Go: tools that make and mount file systems.
set -euo pipefail

missing=()
need() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
need losetup util-linux
need findmnt util-linux
need mkfs.ext4 e2fsprogs
need resize2fs e2fsprogs
need mkfs.xfs xfsprogs
need ip iproute2
need curl curl

[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "please install: ${missing[*]}" >&2
	exit 1
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
