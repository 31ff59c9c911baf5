# The targets for work on berth. `make help` lists them.
GO       ?= go
# grpcnotrace: the traces of gRPC execute templates, which keep the methods of all types in the binary (ADR 107).
TAGS     := hashicorpmetrics,grpcnotrace
# -dwarf=false: the binary is stripped, so the compiler need not write what a debugger reads.
GOFLAGS  += -trimpath -gcflags=all=-dwarf=false
# No garbage collection below a limit: a fifth less work for large packages, about 1 GB for two compilers.
BUILDENV := CGO_ENABLED=0 GOGC=off GOMEMLIMIT=600MiB
REVISION := $(shell git describe --always --dirty --abbrev=12 --match 'v*' 2>/dev/null)
# -funcalign=16: with the usual 32, 70,000 functions have 0.7 MB of padding between them.
STRIPPED := -s -w -funcalign=16
LDFLAGS  := $(STRIPPED) -X berth/internal/version.described=$(REVISION)
BIN      := bin/berth
CONVERT  := bin/berth-convert
# These programs are pinned here: as tool directives, they would bring their dependencies into go.mod.
LINT     := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
VULN     = golang.org/x/vuln/cmd/govulncheck@v1.9.0
NFPM    := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
SBOM    := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
# All packages whose tests need no built binary.
UNITS     = $$($(GO) list -tags $(TAGS) ./... | grep -v /test/e2e)

# These have pipes, each of which fails if one of its commands does.
lease-release cover check fmt: private SHELL := /bin/bash
lease-release cover check fmt: private .SHELLFLAGS := -o pipefail -c

.PHONY: help build convert release reproduce setup setup-all setup-demo test test-race test-all interop-tools alerts-test fence-agents-test simulate chaos reliability-figures lease-release upgrade unit cover fuzz check lint vulncheck sizes demo bench bench-peer site picture goldens fmt clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/berth, one static binary, with the program of the supervisors of tasks in it
	@[ -e $(BIN) ] || echo "compiling berth: 1 to 3 minutes on two cores, only once"
	@# On a bare machine the other modules arrive while the first program compiles.
	@$(GO) list -tags $(TAGS) -deps ./cmd/berth >/dev/null & \
	$(BUILDENV) $(GO) build $(GOFLAGS) -tags $(TAGS) -ldflags '$(STRIPPED)' \
		-o cmd/berth/berth-executor ./cmd/berth-executor; built=$$?; wait; exit $$built
	@cd cmd/berth && { [ ! -e berth-executor ] || gzip -9 -n -f berth-executor; }
	$(BUILDENV) $(GO) build $(GOFLAGS) -tags $(TAGS),embedexecutor -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/berth

convert: ## build bin/berth-convert, which makes files for berth of a cluster of the dialect and of compose files
	cd convert && $(BUILDENV) $(GO) build $(GOFLAGS) -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $(abspath $(CONVERT)) \
		./cmd/berth-convert

release: ## make packages, a container image and their checksums in dist/, for ARCHES, with the revision RELEASE (1)
	@NFPM=$(NFPM) SBOM=$(SBOM) ./scripts/release.sh

reproduce: ## make the release of a commit (COMMIT, HEAD) twice from nothing, and compare the files: 10 minutes or more
	@./scripts/reproduce.sh

setup: ## install the Debian packages that `make test` and `make test-race` need (root; nothing if they are there)
	./scripts/setup.sh test

setup-all: ## install the Debian packages that `make test-all` needs (root; nothing if they are there)
	./scripts/setup.sh all

setup-demo: ## install the Debian packages that the demo needs (root; nothing if they are there)
	./scripts/setup.sh demo

test: setup build ## run the tests that need no program of others, with real Raft, processes and mounts (root)
	./scripts/test.sh test

test-race: setup ## run the tests that start goroutines with the race detector, and those of clusters (root)
	./scripts/test.sh race

test-all: setup-all build convert ## run the other tests: the binary in every story, Docker, Consul, the page, packages, the converter (root)
	./scripts/test.sh all

interop-tools: build ## build seven tools of the dialect once, which test/interop/README.md lists, and test berth with them
	INTEROP_TOOLS=$$(./scripts/interop-tools.sh) && cd test/interop && BERTH_BIN=$(CURDIR)/$(BIN) \
		INTEROP_TOOLS=$$INTEROP_TOOLS CGO_ENABLED=0 $(GO) test -tags $(TAGS) -count 1 -run TestTool ./...

alerts-test: ## test the rules of docs/operations/monitoring.md with promtool, which it unpacks once (Debian)
	@promtool=$$(./scripts/promtool.sh) && PROMTOOL=$$promtool CGO_ENABLED=0 $(GO) test -tags $(TAGS) -count 1 \
		-run TestAlerts -v ./test/refdocs

fence-agents-test: ## run a fence agent of Debian's package fence-agents, which it installs (root)
	@test -x /usr/sbin/fence_dummy || { apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends fence-agents >/dev/null; }
	FENCE_AGENTS=1 CGO_ENABLED=0 $(GO) test -tags $(TAGS) -count 1 -run ByAnAgentOfDebian ./server/fencing

simulate: ## simulate a cluster for HOURS (100) with faults of SEED (1), and the loops of a leader for LOOPS (1m)
	@cd test/simulate && CGO_ENABLED=0 $(GO) test -tags $(TAGS) -count 1 -timeout 0 -run 'TestSimulate$$' \
		-seed $(or $(SEED),1) -hours $(or $(HOURS),100)
	@BERTH_TEST_LONG=$(or $(LOOPS),1m) CGO_ENABLED=0 $(GO) test -tags $(TAGS) -count 1 -timeout 0 ./test/simulation

lease-release: build ## freeze an agent RUNS times (100): its node ends all before the servers release its volume (root)
	@cd test/e2e && LEASE_RELEASE_RUNS=$(or $(RUNS),100) BERTH_BIN=$(CURDIR)/$(BIN) CGO_ENABLED=0 $(GO) test -tags $(TAGS) \
		-count 1 -timeout 0 -parallel $(or $(PARALLEL),4) -run 'TestLease_RecordsTheEndBeforeTheRelease$$' -v . | \
		grep -E '^ *(--- FAIL|[0-9]+ of [0-9]+)|_test.go'

chaos: ## run a cluster of real processes for MINUTES (5) with faults drawn from SEED (1) (root)
	@# Its wall clocks are stepped, so it has a binary of its own.
	@stepped=$$(./scripts/stepped.sh) && $(MAKE) -s build BIN=bin/berth-stepped GOFLAGS="$(GOFLAGS) -overlay=$$stepped"
	@cd test/chaos && BERTH_BIN=$(CURDIR)/bin/berth-stepped CGO_ENABLED=0 $(GO) test -tags $(TAGS) -count 1 -timeout 0 \
		-run 'TestChaos$$' -seed $(or $(SEED),1) -minutes $(or $(MINUTES),5) -stepped

reliability-figures: build ## measure losses of leaders and of power, and kills of an agent: FIGURES (all), RUNS of each (root)
	@cd test/chaos && BERTH_BIN=$(CURDIR)/$(BIN) CGO_ENABLED=0 $(GO) test -tags $(TAGS) -count 1 -timeout 0 \
		-run 'TestFigures$$' -figures $(or $(FIGURES),all) -runs $(or $(RUNS),0)

upgrade: build ## replace a cluster of the released version by this one, agent by agent (root)
	./scripts/upgrade.sh test

unit: ## run the tests that need no root and no built binary; as root, also those that mount
	$(GO) test -short -tags $(TAGS) $(UNITS)

cover: ## run the unit tests with coverage; .cache/cover.out has it for each line
	mkdir -p .cache
	$(GO) test -short -tags $(TAGS) -coverpkg=./... -coverprofile=.cache/cover.out $(UNITS)
	$(GO) tool cover -func=.cache/cover.out | tail -1

fuzz: ## run every fuzz target for FUZZTIME (20000 inputs)
	./scripts/fuzz.sh

check: lint ## check formatting, linters, import layers, generated files and docs
	@unformatted="$$(git ls-files '*.go' | xargs gofmt -l)" || exit 1; \
		test -z "$$unformatted" || { echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; }
	$(GO) test -count=1 -tags $(TAGS) ./internal/archtest ./tools/codecgen ./ui/pages ./test/refdocs

lint: ## run the linters of .golangci.yml
	lint=$$(./scripts/tool.sh $(LINT)) && $$lint run ./... && cd convert && $$lint run ./...

vulncheck: ## look for known vulnerabilities in the code that berth calls (needs the database of the Go project)
	@GO="$(GO)" ./scripts/vulncheck.sh $(VULN)

sizes: ## print lines, tokens and tokens per line of product, generated code, tests and benchmarks
	@$(GO) run ./tools/sizes

demo: setup-demo build ## run a job with a volume from its file to its end (root)
	./scripts/demo.sh

bench: ## run the Go benchmarks, then one and three servers under load and overload
	./scripts/bench.sh

bench-peer: ## run the same work on the peer (Nomad v1.6.1) and on berth: name | peer | berth | ratio
	./scripts/bench-peer.sh

site: ## make the documentation as a site in dist/site, with a search
	@./scripts/setup.sh site
	@rm -rf dist/site && mkdir -p dist
	$(GO) run ./test/site -out .cache/site
	cd .cache/site && mkdocs build --quiet --strict
	mv .cache/site/site dist/site
	@echo "to read it, with its search: python3 -m http.server -b 127.0.0.1 -d dist/site"

picture: setup-demo build ## draw the picture of README, docs/images/tour.svg, from the commands of its five minutes (root)
	$(GO) run ./tools/tour

goldens: ## write the codecs of structs, the components of the page, the golden files and docs/reference again
	$(GO) generate ./tools/codecgen ./ui/pages
	$(GO) test -tags $(TAGS) ./api -run HaveTheirProcedures -update
	$(GO) test -tags $(TAGS) ./scheduler/explain -update
	$(GO) test -tags $(TAGS) ./test/refdocs ./fsm ./structs ./cli ./endpoints -update
	$(GO) test -tags $(TAGS) ./jobspec -rewrite

fmt: ## format all Go files
	git ls-files '*.go' | xargs gofmt -w

clean: ## remove what was built
	rm -rf bin .cache
