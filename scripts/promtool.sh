#!/usr/bin/env bash
# Unpacks promtool of Debian's package prometheus once into .cache/ and prints its path. The package is not installed:
# its server is not needed.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=.cache/promtool
if [ ! -x "$binary" ]; then
	echo "unpacking promtool (19 MB): only once" >&2
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	apt-get update -qq >&2
	(cd "$work" && apt-get -o APT::Sandbox::User=root download -qq prometheus >&2 && dpkg-deb -x prometheus_*.deb .)
	mkdir -p .cache
	mv "$work/usr/bin/promtool" "$binary"
fi
realpath "$binary"
