# make help says what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help

.PHONY: help run build test test-apps long faults bench lint lines need

help: ## Say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## Build bin/authguard
	@mkdir -p bin && CGO_ENABLED=0 go build -trimpath -o bin/authguard ./cmd/authguard

run: build ## Start the product: no server, no configuration needed
	@bin/authguard serve

need: ## Install, or name, what the tests need
	@./.ci/need

test: need ## Every test, with the race detector
	go vet ./...
	go test -race -parallel 4 -timeout 30m ./... # many tests wait: for clocks, servers, browsers
	FLOOD_NAMES=10000000 go test -count=1 -run TestR6FloodOfNamesPushesNoCounterOut ./failures

test-apps: need ## The reverse proxy before Django, WordPress, phpMyAdmin and DokuWiki
	@./.ci/need-apps
	go test -tags apps -count=1 -timeout 30m -run 'Apps' ./internal/appstest ./cmd/authguard

long: need ## The long form: simulated weeks and every fuzz target for 30 s, after the tests
	$(MAKE) test
	FULL_SIZE=1 go test -v -count=1 -run 'TestR28ABotnet|TestR28FiftyStaleProgramsPut' .
	./.ci/fuzz 30s

faults: need ## Break Redis and nodes under load, and print what that cost
	FAULT_GUESSES=$(or $(FAULT_GUESSES),300) go test -v -count=1 -timeout 20m -run 'TestFaultsUnderLoad|TestR26EverybodyElseGetsIn' ./cmd/authguard

bench: ## One table of speeds beside rivals and a floor (needs wrk and nginx)
	cd bench && go run .

lint: ## gofmt, vet and golangci-lint if it is installed
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	@if command -v golangci-lint >/dev/null; then golangci-lint run; else echo "golangci-lint is not installed: gofmt and vet only"; fi

lines: ## Count the product's lines by package
	@./.ci/lines
