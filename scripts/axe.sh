#!/usr/bin/env bash
# Fetches axe-core, which finds faults of accessibility in a page, and prints the path of its script. It is pinned,
# and no part of berth: test/ui runs it in the browser.
set -euo pipefail
cd "$(dirname "$0")/.."
version=4.14.1
sum=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745
folder=$PWD/.cache/axe-$version
if [ ! -e "$folder/axe.min.js" ]; then
	command -v npm >/dev/null 2>&1 || { echo "axe.sh: needs npm (make setup-all)" >&2; exit 1; }
	mkdir -p "$folder"
	(cd "$folder" && npm pack --silent "axe-core@$version" >/dev/null)
	echo "$sum  $folder/axe-core-$version.tgz" | sha256sum --check --quiet >&2
	tar -xzf "$folder/axe-core-$version.tgz" -C "$folder" --strip-components 1 package/axe.min.js
fi
echo "$folder/axe.min.js"
