#!/usr/bin/env bash
# Makes the release of a commit twice and compares all files, as `make reproduce`. Each release has a clone in a path of
# its own, an empty cache of the compiler, and its own time zone and language: none of these may be in a file.
#
#   COMMIT   the commit; default: HEAD
#   ARCHES, RELEASE  as for release.sh
set -euo pipefail
cd "$(dirname "$0")/.."
commit=$(git rev-parse --verify --quiet "${COMMIT:-HEAD}^{commit}") ||
	{ echo "reproduce: COMMIT is \"${COMMIT-}\"; expected a commit of this repository" >&2; exit 2; }
[ -z "$(git status --porcelain --untracked-files=no)" ] ||
	echo "reproduce: the work tree has changes that are not in ${commit:0:12}: they are not tested" >&2

# The caches have 2 GB, which may be more than a /tmp in memory holds.
work=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$work"' EXIT

# make_release NAME CLONE TZ LANGUAGE makes the release in a clone, and writes the sums of its files to NAME.sums.
make_release() {
	echo "reproduce: making the $1 release of ${commit:0:12}"
	git clone --quiet --no-checkout . "$2"
	git -C "$2" checkout --quiet --detach "$commit"
	# The variables of `make reproduce` itself, and those that would replace a part of the build, stay out.
	env -u MAKEFLAGS -u MAKELEVEL -u DIST -u PROGRAM -u SOURCE_DATE_EPOCH \
		GOCACHE="$work/cache-$1" TZ="$3" LC_ALL="$4" make -s -C "$2" release
	(cd "$2/dist" && find . -type f -printf '%P\0' | sort -z | xargs -0 sha256sum) >"$work/$1.sums"
	rm -rf "$work/cache-$1" "$2"
}

make_release first "$work/a" UTC C
make_release second "$work/another/path/that/is/longer" Asia/Tokyo C.UTF-8

cat "$work/first.sums"
if ! diff -u --label first --label second "$work/first.sums" "$work/second.sums" >"$work/difference"; then
	echo "reproduce: two releases of ${commit:0:12} differ:" >&2
	cat "$work/difference" >&2
	exit 1
fi
echo "reproduce: two releases of ${commit:0:12} are equal: $(wc -l <"$work/first.sums") files"
