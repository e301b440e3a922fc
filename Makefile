# Fleetwright: `make` shows what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
# ARGS go to the demo: make demo ARGS=--keep
ARGS ?=
# RUN narrows the tests: make test RUN=TestFieldReport
RUN ?=
GO_TEST := go test $(if $(RUN),-run '$(RUN)')
# Packages whose tests need nothing but Go and git.
UNIT := ./pkg/... ./cmd/... ./reconciler/... ./schema/... ./charts/... ./docs/... ./test/arch/... ./test/example/... ./test/docs/... ./test/gitserver/... ./test/protocol/... ./test/history/... ./test/realnode/... ./test/foreign/...
# Packages whose tests talk to a real API server.
REAL := ./test/cluster ./test/simnode/... ./test/chart/... ./test/apiverdict/... ./test/rollout/... ./test/delivery/... ./test/review/...

.PHONY: help
help: ## Show the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-13s %s\n", $$1, $$2}'

.PHONY: build
build: ## Build the programs into bin/
	go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

.PHONY: demo
demo: build ## Show the main job on this machine: five pushes, 24 simulated nodes (ARGS=--keep, ARGS=--chaos=20s)
	go build -ldflags '$(LDFLAGS)' -o bin/fleetwright-demo ./test/demo
	bin/fleetwright-demo $(ARGS)

.PHONY: demo-regions
demo-regions: build ## Show promotion on this machine: three control planes, one repository, a canary that fails
	go build -ldflags '$(LDFLAGS)' -o bin/demo-regions ./test/demo/regions
	bin/demo-regions

.PHONY: playground
playground: build ## Run a forge, a cluster with twelve simulated nodes, reconciler and reviewer until Ctrl-C (docs/getting-started.md)
	go build -ldflags '$(LDFLAGS)' -o bin/playground ./test/playground
	bin/playground

.PHONY: test
test: test-unit test-real ## Run every test, with a real control plane (built once, about 20 CPU minutes)

.PHONY: test-unit
test-unit: ## Run the tests that need no control plane
	$(GO_TEST) $(UNIT)
	go test -run 'TestWitness|TestFaults' ./test/soak # the soak itself is make soak

.PHONY: test-real
test-real: control-plane ## Run the tests against a real API server
	$(GO_TEST) -timeout 30m -p 2 $(REAL)
	cd test/cluster/controlplane && go test -trimpath -vet=off . # plain flags compile Kubernetes a second time

# EVERY and SEED choose points of the crash suite: make crash EVERY=50 SEED=7. POINT plays one: make crash POINT=before:patch:nodes/c0:3
EVERY ?= 1
SEED ?= 0
POINT ?=
# PER_RUN is how many points are played in one run, far from each other: 8 play all of them in an hour instead of eight.
PER_RUN ?= $(if $(POINT),$(words $(POINT)),1)
# LANES is how many control planes the crash suite uses at once, 600 MB each.
LANES ?= 1

.PHONY: crash
crash: control-plane ## Kill the reconciler at every write of a lifecycle, and disturb each in four other ways (hours; EVERY=50 samples)
	FLEETWRIGHT_CRASH_EVERY=$(EVERY) FLEETWRIGHT_CRASH_SEED=$(SEED) FLEETWRIGHT_CRASH_POINT='$(POINT)' FLEETWRIGHT_CRASH_LANES=$(LANES) FLEETWRIGHT_CRASH_PER_RUN=$(PER_RUN) \
		go test -count=1 -timeout 24h $(if $(POINT),-v -run 'TestEveryWrite',$(if $(RUN),-v -run '$(RUN)')) ./test/crash

# SEED, STEPS and NODES choose the soak; without SEED it is a random one, which is printed. Short: make soak SEED=1 STEPS=150 NODES=8
.PHONY: soak
soak: control-plane ## Disturb 100 nodes in 10 000 random ways, then let everything converge (about an hour; SEED=7 STEPS=2000 NODES=30)
	FLEETWRIGHT_SOAK_SEED=$(or $(filter-out 0,$(SEED)),$$RANDOM) FLEETWRIGHT_SOAK_STEPS=$(or $(STEPS),10000) FLEETWRIGHT_SOAK_NODES=$(or $(NODES),100) \
		go test -count=1 -v -timeout 4h ./test/soak

# REQUIRE=1 fails where the suite would skip.
.PHONY: e2e
e2e: build ## Play the whole product on two real nodes (Linux and root; says which Debian packages it needs)
	go run ./test/images -out bin/images -tag e2e agent
	FLEETWRIGHT_E2E_BIN=$(CURDIR)/bin FLEETWRIGHT_E2E_REQUIRE=$(REQUIRE) go test -count=1 -v -timeout 40m ./test/e2e

.PHONY: gitea
gitea: ## Build the Gitea of test-forge and playground into its cache, and print where
	go run ./test/forge/buildgitea

.PHONY: test-forge
test-forge: build control-plane gitea ## Run the tests against a real Gitea (built once, about 12 CPU minutes; needs a C compiler)
	$(GO_TEST) -timeout 30m ./test/forge/... ./test/playground/...

.PHONY: histories
histories: ## Hold the planner to the naive reference on 100 000 random histories (about 100 CPU seconds)
	FLEETWRIGHT_REFERENCE_HISTORIES=100000 go test -count=1 -timeout 20m -run TestPlannerAgreesWithTheReference ./pkg/core/plan

.PHONY: test-race
test-race: ## Run the unit tests with the race detector
	$(GO_TEST) -race ./pkg/core/... ./pkg/agent/... ./pkg/adapter/forge/... ./pkg/adapter/git/... ./reconciler/...

.PHONY: control-plane
control-plane: ## Build the control plane of tests and demo into its cache, and print where
	go run ./test/cluster/buildcontrolplane

# FUZZTIME is how long each fuzz target runs: make fuzz FUZZTIME=10m
FUZZTIME ?= 60s
FUZZ := FuzzParseConfig FuzzFlagName FuzzHistory FuzzInterrupt

.PHONY: fuzz
fuzz: ## Feed readers random input: config.json, flag names, history, interrupts, webhooks (60 s each; FUZZTIME=10m)
	for target in $(FUZZ); do go test -tags fuzz -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) ./pkg/agent || exit 1; done
	go test -run '^$$' -fuzz '^FuzzRead$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 1s ./pkg/adapter/forge/webhook

.PHONY: bench
bench: ## Run the benchmarks; the agent's size, start and memory as parts of their bounds, which fail above 1
	go test -run '^$$' -bench . -benchmem ./pkg/core/plan/... ./pkg/adapter/overlay/...
	go test -run '^$$' -bench . ./test/footprint
	$(MAKE) bench-git

.PHONY: bench-git
bench-git: ## Fetch 5 MiB of manifests out of 1 GiB of history, and a commit at the limits; memory as parts of their bounds, which fail above 1
	go test -run '^$$' -bench BenchmarkFetch -benchtime 3x -v ./pkg/adapter/git # makes the repository once, in the cache of the tests

# CLUSTER is how many nodes and pods there are: make bench-cluster CLUSTER=1000/10000
CLUSTER ?= 5000/50000

.PHONY: bench-cluster
bench-cluster: control-plane ## Measure memory and first action in a cluster of 5000 nodes and 50 000 pods (minutes; CLUSTER=1000/10000)
	FLEETWRIGHT_CLUSTER=$(CLUSTER) go test -count=1 -v -timeout 2h -run TestFieldReport_AC06 ./test/rollout

.PHONY: lint
lint: ## Check format, vet, staticcheck, and the layers between packages
	@files=$$(git ls-files '*.go' | xargs gofmt -l); test -z "$$files" || { echo "gofmt would change: $$files"; exit 1; }
	go vet ./...
	go tool staticcheck ./...
	go test ./test/arch/...

.PHONY: generate
generate: ## Generate deep copies, CRDs, JSON Schemas and the manifest reference
	go tool controller-gen object paths=./pkg/apis/...
	go tool controller-gen crd paths=./pkg/apis/... output:crd:artifacts:config=charts/fleetwright/crds
	go run ./schema/gen
	go run ./docs/gen

.PHONY: images
images: ## Build the images of reconciler and agent as OCI layouts in bin/images, and print their digests
	go run ./test/images -out bin/images -tag $(VERSION)
