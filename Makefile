# make help says what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# What --version says. A release is a tag such as v1.2.3.
VERSION ?= $(shell git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null | sed s/^v// | grep . || echo 0.0.0~git$$(TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M%S --format=%cd.%h --abbrev=12 2>/dev/null)$$(git diff-index --quiet HEAD -- 2>/dev/null || echo +dirty))
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE ?= $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)
LDFLAGS = -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)

.PHONY: help run build deb image release test attacks reference pictures test-apps long faults bench lint path lines need

help: ## Say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## Build bin/authguard
	@mkdir -p bin && CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/authguard ./cmd/authguard

deb: ## Build dist/authguard_….deb and SHA256SUMS, the same bytes each time
	@VERSION='$(VERSION)' COMMIT='$(COMMIT)' DATE='$(DATE)' ./deploy/package/build deb $(or $(ARCH),amd64) dist

image: ## Build dist/authguard_….image.tar for docker load or podman load; no engine needed
	@VERSION='$(VERSION)' COMMIT='$(COMMIT)' DATE='$(DATE)' ./deploy/package/build image $(or $(ARCH),amd64) dist

release: ## Build a release into dist/: programs, packages, images, SBOMs, SHA256SUMS and notes, the same bytes each time
	@VERSION='$(VERSION)' COMMIT='$(COMMIT)' DATE='$(DATE)' ./deploy/package/build release 'amd64 arm64' dist

run: build ## Start the product: no server, no configuration needed
	@bin/authguard serve

need: ## Install, or name, what the tests need
	@./.ci/need

# SQLite's C in Go and bcrypt are ten times slower under the race detector, and no code of
# ours is in them: they are compiled without it. Only packages without generic code may
# be: the linker keeps one copy of an instance, and a sync.Map's from here (modernc.org/libc
# has one) makes the detector see races where there are none.
RACE = -trimpath -race $(foreach others,modernc.org/sqlite/lib golang.org/x/crypto/bcrypt golang.org/x/crypto/blowfish,-gcflags=$(others)=-race=false)
export GORACE = atexit_sleep_ms=10 # not a second for each package

# The tests of cmd/authguard that run servers in their own process. The others attack a binary.
IN_PROCESS = TestTheDemo|TestTheStory|TestNodesWhoseClocks|TestLearn|TestLoginThroughAPicture|TestR6AFlood|TestAnAttackIsFollowed|TestR12ResetLinksAre|TestAServerHasNoLink|TestARouteKeepsIts|TestFailingPartsOf|TestAReloadReaches|TestR14ANewPasswordElsewhere|TestR1SessionCookiesAre

# Long ones outside cmd/authguard: every page in a browser, every color, and weeks of a simulated site.
LATER = ^(TestEveryPageIsAccessibleAndFitsAPhoneInABrowser|TestTheFiguresOfTheReadme|TestR32StuffingInTheTown|TestR25AMonthOfPoison.*|TestR25AnAttackByNight.*|TestR25BurstsResume.*|TestWhatElseCouldFollowTheHour|TestEveryColourCanBeRead)$$

test: need ## Every test but the long ones, with the race detector where code of ours runs in the test's process
	cd bench && go vet ./... # a module of its own, which ./... does not include
	./.ci/memory go test $(RACE) -skip '$(LATER)' -p 4 -parallel 4 -timeout 30m -vet=all $$(go list ./... | grep -vE '/(cmd/authguard|deploy|test)$$') # many tests wait
	./.ci/memory go test $(RACE) -timeout 30m -short -run '$(IN_PROCESS)' ./cmd/authguard
	./.ci/memory ./.ci/alone '$(IN_PROCESS)' '$(LATER)'

attacks: need ## The long tests: botnets, faults, stories, simulated weeks, every page in a browser; the image, the units and the site of deploy/
	names=$$(awk '/^func Test/ { sub(/[(].*/, "", $$2); name = $$2 } /^\tlong[(]t[)]$$/ { print name }' cmd/authguard/*_test.go | paste -sd'|') && \
	CGO_ENABLED=0 ./.ci/memory go test -trimpath -timeout 30m -parallel 4 -run "^($$names)$$" -skip '$(IN_PROCESS)' ./cmd/authguard && \
	./.ci/memory go test $(RACE) -timeout 30m -run "^($$(echo "$$names" | tr '|' '\n' | grep -E '$(IN_PROCESS)' | paste -sd'|'))$$" ./cmd/authguard
	go test -trimpath -timeout 30m ./deploy
	CGO_ENABLED=0 go test -trimpath -timeout 30m -run '$(LATER)' ./web/pages ./internal/simulate ./captchamode

reference: ## Renew the generated parts of docs/reference
	REFERENCE=write go test -count=1 -run '^TestReference' $$(grep -rl --include=*_test.go 'func TestReference' . | xargs -n1 dirname | sort -u)

pictures: need ## Pictures of every page into dist/pictures: light, dark, phone; axe-core looks at each
	@mkdir -p $(or $(PICTURES),dist/pictures)
	PICTURES=$(abspath $(or $(PICTURES),dist/pictures)) go test -count=1 -timeout 30m -run 'InABrowser|AnAttackIsFollowed|TheStoryIs' ./cmd/authguard ./web/pages ./internal/replay

test-apps: need ## Real apps (Django, WordPress, Verdaccio …) behind the proxy; fail2ban, Prometheus, the .deb; Redis and nodes broken under load
	@./.ci/need-apps
	go test -tags apps -count=1 -timeout 30m -run 'Apps|R26EverybodyElse' ./internal/testing/appstest ./cmd/authguard ./deploy
	FULL_SIZE=1 go test -tags apps -count=1 -timeout 30m -run 'LimitEveryTime' ./cmd/authguard

long: need ## The long form: ten million names, simulated weeks, random histories and every fuzz target for 30 s, after the tests
	$(MAKE) test attacks
	FULL_SIZE=1 go test -v -count=1 -run 'TestR28ABotnet|TestR28FiftyStaleProgramsPut' .
	FULL_SIZE=1 go test -v -count=1 -timeout 60m -run 'TestR12Times|TestR26OneAddress|TestNativeCode|TestR32' ./cmd/authguard ./captchamode/challenge/pow
	FULL_SIZE=1 go test -v -count=1 -timeout 60m -run 'TestR32StuffingInTheTown|TestTheTableOfTheStepUp' ./internal/simulate
	FULL_SIZE=1 go test -v -count=1 -run 'TestAListIsCompact' ./internal/passwords
	FLOOD_NAMES=10000000 go test -count=1 -run TestR6Flood ./failures
	FULL_SIZE=1 go test -count=1 -timeout 60m -rapid.checks 1000 ./internal/redisstore
	./.ci/fuzz 30s

faults: need ## Break Redis and nodes under load, and print what that cost
	FAULT_GUESSES=$(or $(FAULT_GUESSES),300) go test -tags apps -v -count=1 -timeout 20m -run 'TestAppsFaultsUnderLoad|TestR26EverybodyElseGetsIn' ./cmd/authguard

bench: ## Speed and memory beside other limiters, summed up in one table (needs wrk, nginx, Redis)
	cd bench && go run .

lint: ## gofmt, vet and golangci-lint if it is installed
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	cd bench && go vet ./...
	@if command -v golangci-lint >/dev/null; then golangci-lint run; else echo "golangci-lint is not installed: gofmt and vet only"; fi

path: need ## The files that one login enters, in order: memory and Redis, known and unknown client
	@FULL_SIZE=1 go test -count=1 -v -run TestThePathOfALogin ./test

lines: ## Count the product's lines by package
	@./.ci/lines
