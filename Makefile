.PHONY: figures help test test-short test-docker lint soak operations simulation simulate full docker-image bench bench-quick bench-once

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 24

test: ## all tests of all modules, with real servers, and with -race where that sees anything; installs what is missing (root)
	@scripts/test full

test-short: ## the tests that need no server, under a minute
	@scripts/test short

test-docker: ## servers in containers: at least one test per database
	@scripts/test-docker

lint: ## gofumpt, vet, staticcheck, sizes, comments
	@scripts/lint

soak: ## long seeded programmes of faults
	@scripts/test soak

operations: ## every operation of a database fails once, in every way: all on SQLite, a sample on servers
	@cd internal/integration && SENDONCE_SOAK=1 go test -count=1 -timeout 60m -parallel 3 -v -run TestEveryOperationSoak ./nthop

simulation: ## 100,000 schedules of the loop, 5,000 with -race, and planted faults that they must find
	@cd internal/integration && SENDONCE_SIMULATION=1 go test -count=1 -timeout 60m -v -run 'TestManySchedules|TestPlantedFaults' ./simulation

simulate: ## 1,000,000 schedules of the loop (SENDONCE_SEEDS: another number); the result is in simulate.txt
	SENDONCE_SEEDS=$${SENDONCE_SEEDS:-1000000} SENDONCE_RESULT=simulate.txt go test -count=1 -timeout 0 -run '^TestSimulation$$' -v .

bench: ## strategies against each other, rivals and hand-written loops; the result is in docs/bench (a quarter of an hour, an idle machine)
	@cd internal/bench && go run ./cmd/bench -out ../../docs/bench
	@$(MAKE) figures

figures: ## the figures of docs/bench into the documents that show them
	@cd internal/bench && go run ./cmd/bench -out ../../docs/bench -fill ../../docs/performance.md ../../README.md

bench-once: ## every contender of the benchmark once, with few rows: that none rots
	@cd internal/bench && SENDONCE_BENCH=1 go test -count=1 -timeout 15m -run TestEveryContender .

bench-quick: ## a small cut of it in under 4 minutes: one line per bar
	@cd internal/bench && go run ./cmd/bench -quick

full: ## all of these, and the long programmes whole; the result is in full.txt
	@scripts/full

docker-image: ## a local image with the three servers, from the distribution's packages (root)
	@scripts/docker-image.sh
