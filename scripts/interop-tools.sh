#!/usr/bin/env bash
# Builds the tools of the dialect that test/interop runs against berth, each once, into .cache/interop-tools/, and
# prints this directory. Each is built from the source of its module, with the versions of its own go.mod. The first
# run takes 15 to 30 minutes on two cores, most of them for OpenTofu and Prometheus. A tool whose source cannot be had is named, and
# its test skips itself.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p .cache/interop-tools
tools=$(realpath .cache/interop-tools)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build compiles a package of a module at a version into $tools/$name, with more flags of go build. The package may be
# a program of ours that runs a part of the module, test/interop/testdata/$name.go.txt. A caller with || disables
# errexit in it. REPLACE, "MODULE=MODULE@VERSION", stands in for a version that cannot be had.
build() {
	local name=$1 module=$2 version=$3 package=$4 start=$SECONDS mod=readonly
	shift 4
	[ "$(cat "$tools/$name.version" 2>/dev/null)" != "$version" ] || return 0
	echo "building $name $version: only once" >&2
	local source
	source=$(cd "$work" && GOFLAGS= GOWORK=off go mod download -json "$module@$version" |
		sed -n 's/^\s*"Dir": "\(.*\)",$/\1/p')
	[ -n "$source" ] || { echo "$name: there is no source of $module@$version" >&2 && return 1; }
	cp -r "$source" "$work/$name" || return 1 # the cache of modules is read-only
	chmod -R u+w "$work/$name"
	local ours=test/interop/testdata/$name.go.txt
	[ ! -e "$ours" ] || install -D "$ours" "$work/$name/$package/main.go"
	if [ -n "${REPLACE:-}" ]; then
		(cd "$work/$name" && GOFLAGS= GOWORK=off go mod edit -replace "$REPLACE") || return 1
		mod=mod # go.sum gets the sum of that version
	fi
	(cd "$work/$name" && CGO_ENABLED=0 GOFLAGS= GOWORK=off go build -mod=$mod -trimpath -buildvcs=false "$@" \
		-o "$tools/$name" "$package") >&2 ||
		return 1
	rm -rf "${work:?}/$name"
	echo "$version" >"$tools/$name.version"
	echo "built $name in $((SECONDS - start)) s" >&2
}

failed=()
build levant github.com/hashicorp/levant v0.3.3 . || failed+=(levant)
build wander github.com/robinovitch61/wander v1.1.0 . || failed+=(wander)
build nomad-autoscaler github.com/hashicorp/nomad-autoscaler v0.4.7 . || failed+=(nomad-autoscaler)
# The commit of the public client that its go.mod names cannot be had everywhere. The version of our tests can.
client=github.com/hashicorp/nomad/api
REPLACE=$client=$client@$(cd test/interop && GOWORK=off go list -m -f '{{.Version}}' $client) \
	build nomad-pack github.com/hashicorp/nomad-pack v0.4.2 . || failed+=(nomad-pack)
# Without the discovery in other systems it needs a fraction of their libraries.
build prometheus github.com/prometheus/prometheus v0.316.0 ./cmd/prometheus \
	-tags remove_all_sd,enable_nomad_sd || failed+=(prometheus)
# The rest of Traefik needs libraries of DNS services that cannot be had everywhere.
build traefik-provider github.com/traefik/traefik/v3 v3.6.12 ./cmd/provider || failed+=(traefik-provider)
if build terraform-provider-nomad github.com/hashicorp/terraform-provider-nomad v1.4.20 .; then
	build tofu github.com/opentofu/opentofu v1.12.6 ./cmd/tofu || failed+=(tofu)
else
	failed+=(terraform-provider-nomad tofu) # the test of OpenTofu needs both
fi
compgen -G "$tools/*.version" >/dev/null || { echo "no tool could be built" >&2 && exit 1; }
[ ${#failed[@]} -eq 0 ] || echo "not built, so its test is skipped: ${failed[*]}" >&2
echo "$tools"
