# The targets for work on berth. `make help` lists them.
GO       ?= go
TAGS     := hashicorpmetrics
GOFLAGS  += -trimpath
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -s -w -X berth/internal/version.Version=$(VERSION)
BIN      := bin/berth
LINT     := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
# All packages whose tests need no built binary.
UNITS     = $$($(GO) list -tags $(TAGS) ./... | grep -v /test/e2e)

.PHONY: help build setup test unit cover fuzz check lint sizes demo bench bench-peer goldens fmt clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/berth, one static binary
	CGO_ENABLED=0 $(GO) build $(GOFLAGS) -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/berth

setup: ## install what the tests need from Debian (root; does nothing when it is there)
	./scripts/setup.sh

test: setup build ## run all tests, with the race detector; real processes, mounts and sockets (root)
	./scripts/test.sh

unit: ## run the tests that need no root and no built binary; as root, also those that mount
	$(GO) test -short -tags $(TAGS) $(UNITS)

cover: ## run the same with coverage; .cache/cover.out has it line by line
	mkdir -p .cache
	$(GO) test -short -tags $(TAGS) -coverpkg=./... -coverprofile=.cache/cover.out $(UNITS)
	$(GO) tool cover -func=.cache/cover.out | tail -1

fuzz: ## run every fuzz target for FUZZTIME (20000 inputs)
	./scripts/fuzz.sh

check: lint ## formatting, linters, import layers, generated files and docs current
	@unformatted="$$(git ls-files '*.go' | xargs gofmt -l)"; \
		test -z "$$unformatted" || { echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; }
	$(GO) test -count=1 -tags $(TAGS) ./internal/archtest ./internal/codecgen ./test/refdocs

lint: ## run the linters of .golangci.yml
	$(GO) run $(LINT) run ./...

sizes: ## lines, tokens and tokens per line of the product, generated code, tests and benchmarks
	@$(GO) run ./internal/sizes

demo: setup build ## from a job file to a mounted volume and back, in under a minute (root)
	./scripts/demo.sh

bench: ## Go benchmarks, the capacity of one store, one and three servers under load and under too much of it
	./scripts/bench.sh

bench-peer: ## the same work on the peer (Nomad v1.6.1) and on berth, in turn: name | peer | berth | ratio
	./scripts/bench-peer.sh

goldens: ## write the codecs of structs, the golden files and the reference tables in docs/ again
	$(GO) test -tags $(TAGS) ./internal/codecgen -update
	$(GO) test -tags $(TAGS) ./test/refdocs ./fsm ./structs ./cli -update

fmt: ## gofmt everything
	git ls-files '*.go' | xargs gofmt -w

clean: ## remove what was built
	rm -rf bin .cache
