# Daily life with pykcoord: `make help` lists the targets. Everything is kept in .venv, build and
# target; nothing is installed outside this folder.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
# In how many processes: tests wait more than they work, and most of a file's set-up is shared.
TEST_PROCESSES ?= 2
DIFF_ARGS ?= --seeds 1:1000 --steps 60
BENCH_ARGS ?=
AXIS ?= heartbeat
FUZZ_SECONDS ?= 60
# Of fuzz-server: a fresh one unless SEED says which; FRAMES is what a failure left.
SEED ?=
FRAMES ?=
SIM_ARGS ?= --seconds 60
LAB_ARGS ?=
# The first of these that is new enough, unless PYTHON says which.
PYTHON ?= $(shell .ci/find-python)

export PATH := $(abspath $(BIN)):$(PATH)
# One interpreter for every build of the extension module: another would rebuild PyO3 each time.
export PYO3_PYTHON := $(abspath $(BIN)/python)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

SOURCES := pyproject.toml Cargo.toml Cargo.lock native/build_backend.py \
	$(shell find native pykcoord -not -path 'native/sim/*' -not -path 'native/cluster/tests/*' -not -path 'native/bench/*' \( \
	-name '*.rs' -o -name Cargo.toml -o -name '*.pyx' -o -name '*.pxd' \))

.PHONY: help demo test build lint lint-rust lint-python format test-rust test-python test-spark test-web test-zookeeper test-kafka test-s3 test-several side-by-side native-tests rust-programs \
	client-programs bench bench-gate profile bench-kafka bench-node bench-moves bench-watch bench-nodes bench-scale bench-console bench-recorder bench-spark bench-assignors \
	bench-abuse diff-kafka crash attack fault-book fault-book-kafka faults fuzz fuzz-server sim sim-cluster docs schemes lock clean tools

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.installed ## build, then run the main job once, in the open
	@$(BIN)/pykcoord demo

test: ## everything that .ci/run checks: lint and all tests
	@$(MAKE) --jobs 3 lint rust-programs client-programs
	@$(MAKE) --jobs 2 test-python native-tests
	@$(MAKE) bench-gate

build: $(VENV)/.installed $(VENV)/.requirements-dev $(VENV)/.installed-spark ## .venv with pykcoord in it, editable

lint: lint-rust lint-python ## formatting, clippy, ruff and the type checker

lint-rust: $(VENV)/.python
	@.ci/require lint
	cargo fmt --all --check
	cargo clippy --quiet --locked --workspace --all-targets -- -D warnings

lint-python: build
	ruff check --quiet .
	ruff format --quiet --check .
	mypy

format: build ## let cargo fmt and ruff have their way
	cargo fmt --all
	ruff check --quiet --fix .
	ruff format --quiet .

test-rust: build ## the tests of the native crates
	cargo test --quiet --locked --workspace

test-python: build ## the tests under tests/; PYTEST_ARGS="-k demo" narrows
	python -m pytest --numprocesses $(TEST_PROCESSES) --dist loadfile $(PYTEST_ARGS)

test-spark: build ## all tests of Spark: clusters of this machine, faults, millions of groups
	@.ci/require java
	python -m pytest tests/spark --spark-all $(PYTEST_ARGS)

test-zookeeper: build ## groups on a real ZooKeeper, long stories too: mixed with 0.8.2.2's consumers, the lab
	@.ci/require java
	python -m pytest tests/zookeeper tests/lab --zookeeper-all $(PYTEST_ARGS)

test-kafka: build ## three real brokers: a node among them, and ten minutes of churn watched; PYTEST_ARGS="--kafka-minutes 2"
	@.ci/require java
	python -m pytest tests/node tests/watch --kafka-all $(PYTEST_ARGS)

fault-book-kafka: build ## the same on three real brokers that are only watched: as far as their log tells
	@.ci/require java
	python -m pytest tests/watch/test_watched_faults.py -n 0 --kafka-all $(PYTEST_ARGS)

test-web: build ## the console in a headless Chromium, against a live server
	@.ci/require chromium
	python -m pytest tests/web $(PYTEST_ARGS)

test-s3: build ## a cluster over an S3 server, each fault; builds the server with Go first
	@.ci/require go
	PYTHONPATH=tests python -m support.gateway
	python -m pytest tests/cluster/test_fault_table.py tests/cluster/test_clocks.py --s3 $(PYTEST_ARGS)

test-several: build ## every client library on three nodes, of one machine, then of a cluster; one is killed in each test
	python -m pytest tests/clients -n 0 --server nodes $(PYTEST_ARGS)
	python -m pytest tests/clients -n 0 --server cluster $(PYTEST_ARGS)

side-by-side: build ## the same faults for a cluster and for three real brokers; FAULTS_ARGS="--only SIGSTOP --rounds 3"
	@.ci/require java
	python -m tests.cluster.side_by_side $(FAULTS_ARGS)

faults: build ## three nodes of a cluster, struck at random for half an hour; FAULTS_ARGS="--minutes 5 --seed 7"
	python -m tests.cluster.faults $(FAULTS_ARGS)

fault-book: build ## faults injected into real clients, and the cause that `pykcoord explain` names for each
	python -m pytest tests/explain -n 0 --fault-book $(PYTEST_ARGS)

bench: build ## what pykcoord costs in process; BENCH_ARGS="-k heartbeats" narrows
	python -m pytest benches -o addopts="--strict-markers --strict-config --import-mode=importlib" \
		--benchmark-columns=min,median,rounds --benchmark-json=build/benchmarks.json $(BENCH_ARGS)

bench-gate: build ## instructions of the hot paths and ratios against bounds; BENCH_ARGS=--set renews
	python -m benches.counts $(BENCH_ARGS)

profile: build ## where the instructions of a hot path go, as a table and a flame graph; AXIS=commit-5
	python -m benches.flames $(AXIS)

bench-kafka: build ## beside Kafka's broker and classes, in turns; BENCH_ARGS=--docs writes the tables
	@.ci/require java cc
	python -m benches.kafka.run $(BENCH_ARGS)

bench-node: build ## a node of a Kafka cluster beside a broker of it, in turns; BENCH_ARGS="--connections 40"
	@.ci/require java cc
	python -m benches.kafka.node $(BENCH_ARGS)

bench-moves: build ## all of __consumer_offsets to a node, and back, with a million commits; BENCH_ARGS="--records 20000"
	@.ci/require java
	python -m benches.kafka.moves $(BENCH_ARGS)

bench-watch: build ## how soon a watcher knows of a commit, beside a bare loop of Fetch; BENCH_ARGS="--rates 5000"
	@.ci/require java
	python -m benches.kafka.watching $(BENCH_ARGS)

bench-nodes: build ## two nodes of this machine beside one process, in turns; BENCH_ARGS="--connections 40"
	@.ci/require cc
	python -m benches.kafka.nodes $(BENCH_ARGS)

bench-scale: build ## one process with up to a million groups; BENCH_ARGS=--docs writes table and plot
	python -m benches.scale $(BENCH_ARGS)

bench-console: build ## the console's pages of a server with a million groups; BENCH_ARGS="--groups 20000"
	python -m benches.console --groups 1000000 $(BENCH_ARGS)

bench-recorder: build ## what the recorder costs heartbeats and commits over the wire, in instructions of the server
	python -m benches.recorder $(BENCH_ARGS)

bench-spark: build ## Spark on two cores, figures beside goals; BENCH_ARGS=--history: 20 M events too
	@.ci/require java
	python -m benches.spark $(BENCH_ARGS)

bench-assignors: build ## assignors beside Kafka's own classes; BENCH_ARGS=--docs writes the table
	@.ci/require java
	python -m benches.kafka.assignors $(BENCH_ARGS)

bench-abuse: build ## what a heartbeat feels of each attack, beside Kafka; BENCH_ARGS="-k metadata"
	@.ci/require java
	python -m benches.abuse $(BENCH_ARGS)

diff-kafka: build ## 1,000 random scenarios beside a real Kafka broker; DIFF_ARGS="--seeds 1:50"
	@.ci/require java
	python tests/diff/random_seeds.py $(DIFF_ARGS)

sim: ## a minute of simulated faults (docs/simulator.md); SIM_ARGS="--seeds 1:10000"
	@.ci/require cargo
	cargo run --quiet --release --locked -p kcoord-sim -- $(SIM_ARGS)

sim-cluster: ## 10,000 seeds of nodes over a shared store; KCOORD_CLUSTER_SEEDS=1:100
	@.ci/require cargo
	KCOORD_CLUSTER_SEEDS=$${KCOORD_CLUSTER_SEEDS:-1:10000} cargo test --quiet --release --locked -p kcoord-cluster --test simulation

crash: build ## the whole crash matrix, and 50 rounds of SIGKILL under the load of 2,000 connections
	python -m pytest tests/crash --crash-rounds 50 --crash-matrix $(PYTEST_ARGS)

attack: build ## every attack of tests/attack in the size that hurts, on a server and in process
	python -m pytest tests/attack --attack-full $(PYTEST_ARGS)

fuzz: ## fuzz what comes from network and disk, for a minute each; FUZZ_SECONDS=3600 for longer
	FUZZ_CORPUS=$(abspath native/fuzz/corpus) cargo test --quiet --locked -p kcoord-node --test fuzz
	for target in session log member_data; do cargo +nightly fuzz run --fuzz-dir native/fuzz $$target \
		-- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048; done

fuzz-server: build ## frames of every API through the whole server; FUZZ_SECONDS=3600 SEED=1, or FRAMES=...
	cd tests && python -m fuzz --seconds $(FUZZ_SECONDS) $(if $(SEED),--seed $(SEED)) \
		$(if $(FRAMES),--frames $(abspath $(FRAMES)))

docs: build ## write the generated parts of docs/ again
	python .ci/generate_docs.py

schemes: build ## run the lab and write docs/schemes.md and its pictures of it; LAB_ARGS="--members 500"
	@.ci/require java
	pykcoord lab all build/lab $(LAB_ARGS)
	python .ci/schemes.py build/lab

lock: ## renew requirements-*.txt and Cargo.lock, within the ranges of pyproject.toml and Cargo.toml
	@.ci/require python cargo
	.ci/lock $(PYTHON)

clean: ## remove everything that was built
	rm -rf $(VENV) build dist target .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find pykcoord \( -name '*.so' -o -name '_*.c' \) -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

tools:
	@.ci/require python cargo cc

# What tests run, made while packages of Python are fetched and the extension is built. Of clients,
# what cannot be built is told again by the tests that need it.
rust-programs: $(VENV)/.python
	cargo test --quiet --locked --workspace --no-run

# Tests in Python wait more than they work: these run beside them, and are heard of at their end.
native-tests: build
	@mkdir -p build
	@nice $(MAKE) test-rust sim bench-gate BENCH_ARGS=--build >build/native-tests.log 2>&1 \
		|| { cat build/native-tests.log; exit 1; }
	@echo "make: the native tests passed (build/native-tests.log)"

client-programs: $(VENV)/.requirements-dev
	-@cd tests && python -m clients.build

# What the demo needs comes first, and alone for `make demo`: a tenth of the development environment.
$(VENV)/.python: requirements-dev.txt | tools
	@echo "make: setting up $(VENV) (once; again when requirements-dev.txt changes)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.requirements: requirements-demo.txt $(VENV)/.python
	@echo "make: fetching what pykcoord needs (seconds; about 60 MB)"
	@.ci/install "$$(grep -c == $<)" packages --requirement $<
	@touch $@

$(VENV)/.requirements-dev: requirements-dev.txt $(VENV)/.requirements
	@echo "make: fetching the tools of development, Spark too (minutes the first time; about 1.1 GB)"
	@.ci/install "$$(grep -c == $<)" packages --requirement $<
	@touch $@

$(VENV)/.installed: $(VENV)/.requirements $(SOURCES) | tools
	@echo "make: building pykcoord (a minute or two the first time)"
	@.ci/install "$$(cargo tree --locked --package kcoord-python --edges normal,build --prefix none \
		| sed 's/ (\*)//' | sort -u | wc -l)" crates \
		--verbose --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-spark: $(VENV)/.requirements-dev spark/pyproject.toml
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable spark
	@touch $@
