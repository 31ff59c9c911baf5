#!/usr/bin/env bash
# Looks for known vulnerabilities in the code that berth calls, with govulncheck ($1: its package and version) and the
# database of the Go project, or the one that GOVULNDB names. A finding ends the run with an error. Where the database
# cannot be reached, the run is skipped and says so.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go} tool=$1 db=${GOVULNDB:-https://vuln.go.dev}

# These modules pin old releases of other programs, which tests and benchmarks run on loopback. None of them is in bin/berth.
others=(bench/peer test/consul test/driver test/mock test/peer)

reached=0
curl -sf -m 20 -o /dev/null "$db/index/db.json" || reached=$?
case $reached in
0) ;;
22 | 37 | 127) # an answer without the file, no such file, no curl
	echo "vulncheck: $db is no database of vulnerabilities, or curl is missing" >&2
	exit 1 ;;
*)
	echo "vulncheck: SKIPPED, $db cannot be reached; run 'make vulncheck' on a machine that reaches it, or set" \
		"GOVULNDB=file:///DIR to a copy"
	exit 0 ;;
esac

for file in $(git ls-files -co --exclude-standard '*go.mod' | sort); do
	module=$(dirname "$file")
	case " ${others[*]} " in
	*" $module "*)
		echo "vulncheck: $module is not looked at: it pins an old release of another program"
		continue ;;
	esac
	echo "vulncheck: $module"
	"$go" run -C "$module" "$tool" -db "$db" -test -tags hashicorpmetrics ./...
done
