#!/usr/bin/env bash
# Makes a release in dist/ (DIST): packages of Debian and RPM, a container image, the programs berth and berth-convert,
# a bill of materials of each program, and the checksums. `make release` runs it with the pinned programs NFPM and SBOM,
# which are paths of Go packages; scripts/tool.sh builds them once.
#
#   ARCHES   the architectures, by their names in Go; default: that of this machine
#   RELEASE  the revision of the packages; default: 1
#   PROGRAM  a program berth that is built already, for one architecture; default: the script builds it
#
# The same commit makes the same files: all dates are that of the commit.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=${DIST:-dist}
RELEASE=${RELEASE:-1}
VERSION=$(sed -n 's/^const Version = "\(.*\)"$/\1/p' internal/version/version.go)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export VERSION RELEASE SOURCE_DATE_EPOCH
export TZ=UTC LC_ALL=C
umask 022
# Like `make build`, so that both share what they compile. The history is in the revision of the program already.
export GOFLAGS="${GOFLAGS-} -buildvcs=false -trimpath -gcflags=all=-dwarf=false"

# The revision of a package is a part of its name and of other versions.
[[ $RELEASE =~ ^[1-9][0-9]{0,3}$ ]] || { echo "release: RELEASE is \"$RELEASE\"; expected a number below 10000" >&2; exit 2; }

# The helpers run here, whatever they make the packages for.
tool() { GOOS='' GOARCH='' CGO_ENABLED=0 go run "$@"; }
# The program berth-convert is of a module of its own.
converter() { tool -C convert -tags hashicorpmetrics,grpcnotrace ./cmd/berth-convert "$@"; }
nfpm=$(./scripts/tool.sh "$NFPM")
sbom=$(./scripts/tool.sh "$SBOM")

STAGE=$(mktemp -d)
export STAGE
trap 'rm -rf "$STAGE"' EXIT
mkdir -p "$dist"
rm -f "$dist"/berth[-_]* "$dist/SHA256SUMS"

# fill makes the files of the packages, but for the programs.
fill() {
	tool -tags hashicorpmetrics,grpcnotrace ./packaging/man "$STAGE/man"
	converter manual >"$STAGE/man/berth-convert.1"
	gzip -9 -n "$STAGE"/man/*.1
	mkdir -p "$STAGE/completion" "$STAGE/examples"
	for shell in bash zsh fish; do
		tool -tags hashicorpmetrics,grpcnotrace ./cmd/berth completion "$shell" >"$STAGE/completion/berth.$shell"
		converter completion "$shell" >"$STAGE/completion/berth-convert.$shell"
	done
	cp -R docs "$STAGE/docs" # messages name its pages
	cp examples/*.hcl examples/*.yaml "$STAGE/examples/"
}

# list_parts writes the bill of materials of a program beside it.
list_parts() {
	# The time of the list is the only part of it that two runs do not share. In that of the converter, berth is the
	# module of a folder, without a name and a version.
	"$sbom" bin -json -noserial -version "$VERSION" "$1" |
		sed -e "s/\"timestamp\": \"[^\"]*\"/\"timestamp\": \"$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)\"/" \
			-e 's/"name": "\.\."/"name": "berth"/' -e "s/\"version\": \"(devel)\"/\"version\": \"$VERSION\"/" \
			-e "s|pkg:golang/\.\.@(devel)|pkg:golang/berth@$VERSION|" >"$1.cdx.json"
}

# make_all makes the files of an architecture.
make_all() {
	export ARCH=$1
	local program=$dist/berth-$VERSION-linux-$ARCH
	local convert=$dist/berth-convert-$VERSION-linux-$ARCH
	if [ -n "${PROGRAM-}" ]; then
		cp "$PROGRAM" "$program"
	else
		GOARCH=$ARCH make -s build BIN="$program"
	fi
	GOARCH=$ARCH make -s convert CONVERT="$convert"
	chmod 755 "$program" "$convert"
	cp "$program" "$STAGE/berth" # nfpm would pack a link as a link
	cp "$convert" "$STAGE/berth-convert"
	for packager in deb rpm; do
		"$nfpm" package --config packaging/nfpm.yaml --packager "$packager" --target "$dist/"
	done
	tool ./packaging/image "$program" "$ARCH" "$dist/berth-$VERSION-image-$ARCH.tar"
	list_parts "$program"
	list_parts "$convert"
}

fill
for arch in ${ARCHES:-$(go env GOARCH)}; do
	make_all "$arch"
done
(cd "$dist" && sha256sum berth[-_]* >SHA256SUMS)
echo "release: $VERSION-$RELEASE is in $dist: $(wc -l <"$dist/SHA256SUMS") files and their SHA256SUMS"
