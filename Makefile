# All tasks of developers and CI.  Needs only make and Python 3.11 or newer.
# `make help` lists the targets.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The server must start from compiled bytecode.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Suppresses the notice of mkdocs-material about MkDocs 2.
export NO_MKDOCS_2_WARNING := 1

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --no-input
SOURCES := $(shell find hsdns -name '*.py' 2>/dev/null)
# Sources of the compiled fast path, which is optional and built if cargo is installed.
CARGO := $(shell command -v cargo 2>/dev/null)
NATIVE := $(if $(CARGO),native/Cargo.toml native/Cargo.lock $(shell find native/src -name '*.rs' 2>/dev/null))

# Arguments for targets that pass some on: make serve HSDNS_ARGS="-dns.port 5353", make test PYTEST_ARGS="-k cache",
# make bench-watch BENCH_ARGS="--quick".
HSDNS_ARGS ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=
FUZZ_SECONDS ?= 20
EXPLANATIONS ?= 5000
QUESTIONS ?= 12
MODULES ?= hsdns/wire hsdns/cluster hsdns/plugins/cache hsdns/plugins/forward hsdns/apiserver/reflector.py
MUTANTS ?= 40
SEED ?= 0
TESTS ?=

.PHONY: help serve test check format lint types native fuzz fuzz-python fuzz-native explanations mutants contracts docs docs-examples pictures scenario-pages changelog scenarios peer peer-record bench bench-watch bench-pressure bench-load bench-verdicts traces load-demo dist ci clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: $(VENV)/compiled  ## Serve the demo cluster on 127.0.0.1:1053 (HSDNS_ARGS for other arguments)
	@exec $(BIN)/hsdns serve $(HSDNS_ARGS)

# HSDNS_TIER=ci takes those too that start processes, HSDNS_TIER=night all, with ten times as many examples.
test: $(VENV)/test $(VENV)/compiled  ## Run the tests, in a minute or two (HSDNS_TIER for more, PYTEST_ARGS for others)
	$(BIN)/pytest -n auto --maxprocesses 4 $(PYTEST_ARGS)

check: format-check lint types contracts docs docs-examples  ## Check format, lint, types, imports and docs

.PHONY: format-check
format-check: $(VENV)/test
	$(BIN)/ruff format --check setup.py hsdns tests loadtest deploy docs/hooks docs/pictures

format: $(VENV)/test  ## Format the code and sort its imports
	$(BIN)/ruff format setup.py hsdns tests loadtest deploy docs/hooks docs/pictures
	$(BIN)/ruff check --fix-only --quiet setup.py hsdns tests loadtest deploy docs/hooks docs/pictures

lint: $(VENV)/test  ## Check the code with ruff
	$(BIN)/ruff check setup.py hsdns tests loadtest deploy docs/hooks docs/pictures

types: $(VENV)/test  ## Check the types of code and tests
	$(BIN)/mypy

native: $(VENV)/run  ## Check and test the compiled fast path (needs cargo), and that it was built
	@if cargo fmt --version >/dev/null 2>&1; then cd native && cargo fmt --check; \
	    else echo 'make native: rustfmt is not installed, the format was not checked'; fi
	@if cargo clippy --version >/dev/null 2>&1; then cd native && \
	    cargo clippy --quiet --locked --no-default-features --all-targets -- -D warnings && \
	    cargo clippy --quiet --locked -- -D warnings; \
	    else echo 'make native: clippy is not installed, lints were not checked'; fi
	cd native && cargo test --quiet --locked --no-default-features
	$(BIN)/python -c 'import hsdns.fastpath._native'

# libFuzzer needs only the compiler's coverage counters, so a stable toolchain is enough.  A panic is a finding.
FUZZ_FLAGS := -Cpasses=sancov-module --cfg=fuzzing $(addprefix -Cllvm-args=-sanitizer-coverage-,\
    level=4 inline-8bit-counters pc-table trace-compares)
FUZZ_TARGET = $(shell rustc -vV | sed -n 's/^host: //p')

fuzz: fuzz-python fuzz-native  ## Fuzz each decoder for FUZZ_SECONDS, from the inputs in the tree

fuzz-python: $(VENV)/test  ## Fuzz the decoders in Python
	$(BIN)/python -m tests.support.fuzz.run $(FUZZ_SECONDS)

explanations: $(VENV)/test  ## Hold EXPLANATIONS random clusters against `explain`, QUESTIONS questions each
	HSDNS_EXPLANATIONS=$(EXPLANATIONS) HSDNS_QUESTIONS=$(QUESTIONS) $(BIN)/pytest -q -n 2 --timeout=0 tests/explanation/test_properties.py $(PYTEST_ARGS)

mutants: $(VENV)/test $(VENV)/compiled  ## Plant MUTANTS small bugs in each of MODULES, and list those that no test near finds
	$(BIN)/python -m tests.support.mutation $(MODULES) --limit $(MUTANTS) --seed $(SEED) $(if $(TESTS),--tests $(TESTS))

fuzz-native:  ## Fuzz the compiled parsers (needs cargo and c++)
	cd native/fuzz && RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --quiet --release --locked \
	    --target-dir target --target $(FUZZ_TARGET)
	@mkdir -p native/fuzz/found
	@cd native/fuzz && for target in query watch; do mkdir -p found/$$target; \
	    if target/$(FUZZ_TARGET)/release/$$target found/$$target corpus/$$target -artifact_prefix=found/ \
	    -max_len=900 -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 >found/log 2>&1; \
	then grep -E '^(Done|stat::number_of_executed)' found/log; \
	else tail -n 40 found/log; \
	    echo 'make fuzz: an input violates the checks of tests/exercise; it is in native/fuzz/found, in a file crash-*, timeout-* or oom-*' >&2; \
	    exit 1; fi; done

contracts: $(VENV)/test  ## Check which part imports which
	$(BIN)/lint-imports --no-cache

docs: $(VENV)/test  ## Build the documentation into site/
	$(BIN)/mkdocs --quiet build --strict

docs-examples: $(VENV)/test $(VENV)/compiled  ## Start every Corefile and run every command of the docs, and look at the tree
	HSDNS_TIER=$${HSDNS_TIER:-ci} $(BIN)/pytest --quiet tests/docs tests/test_layout.py tests/test_sizes.py tests/test_words.py

pictures: $(VENV)/test $(VENV)/compiled  ## Draw the pictures of the docs again (needs dig and chromium)
	@for each in docs.pictures.architecture docs.pictures.terminal docs.pictures.top docs.pictures.dashboard docs.pictures.load docs.pictures.audit loadtest.summary; do $(BIN)/python -m $$each || exit; done

scenario-pages: $(VENV)/run  ## Write the pages of the fault scenarios again
	$(BIN)/python -m hsdns.fault_scenarios.page docs/fault-scenarios

changelog: $(VENV)/test  ## Show the change notes as the next section of CHANGELOG.md
	@$(BIN)/towncrier build --draft

scenarios: $(VENV)/test  ## Run the scenarios, in memory and over sockets
	$(BIN)/pytest tests/test_scenarios.py $(PYTEST_ARGS)

peer: $(VENV)/test  ## Ask the CoreDNS binary that HSDNS_PEER names what tests compare with, and hold the recording against it
	@test -x "$(HSDNS_PEER)" || { echo 'make peer: set HSDNS_PEER to a CoreDNS binary, as in: make peer HSDNS_PEER=/usr/bin/coredns' >&2; exit 1; }
	HSDNS_PEER="$(HSDNS_PEER)" $(BIN)/pytest -m peer $(PYTEST_ARGS)

peer-record: $(VENV)/test  ## Record anew what the CoreDNS of HSDNS_PEER and the API server in KUBEBUILDER_ASSETS reply; every test run is held against it
	@test -n "$(HSDNS_PEER)$(KUBEBUILDER_ASSETS)" || { echo 'make peer-record: set HSDNS_PEER to a CoreDNS binary, or KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver, as in: make peer-record HSDNS_PEER=/usr/bin/coredns' >&2; exit 1; }
	test -z "$(HSDNS_PEER)" || HSDNS_PEER="$(HSDNS_PEER)" HSDNS_PEER_RECORD=1 $(BIN)/pytest -n 0 -m peer tests/test_scenarios.py \
		tests/test_edns_compliance.py tests/test_metrics_text.py tests/stock tests/peer_replies tests/corefile
	test -z "$(KUBEBUILDER_ASSETS)" || KUBEBUILDER_ASSETS="$(KUBEBUILDER_ASSETS)" HSDNS_PEER_RECORD=1 $(BIN)/pytest -n 0 tests/sources/test_same_as_api_server.py \
		tests/sources/test_same_as_controllers.py

bench: $(VENV)/test $(VENV)/compiled  ## Compare the cost of an answer with CoreDNS, Knot and others (BENCH_ARGS)
	$(BIN)/python -m loadtest.answering $(BENCH_ARGS)

bench-watch: $(VENV)/test $(VENV)/compiled  ## Compare with CoreDNS watching an API server (BENCH_ARGS)
	$(BIN)/python -m loadtest.watch $(BENCH_ARGS)

bench-pressure: $(VENV)/test $(VENV)/compiled  ## Compare with CoreDNS under attack (needs cc and openssl; BENCH_ARGS)
	$(BIN)/python -m loadtest.pressure $(BENCH_ARGS)

bench-load: $(VENV)/test $(VENV)/compiled  ## Compare what `hsdns load` costs with dnsperf (needs dnsperf; BENCH_ARGS)
	$(BIN)/python -m loadtest.generator $(BENCH_ARGS)

bench-verdicts: $(VENV)/test $(VENV)/compiled  ## Judge right answers, altered ones and those of servers (BENCH_ARGS)
	$(BIN)/python -m loadtest.verdicts $(BENCH_ARGS)

traces: $(VENV)/test  ## Record what PROGRAMS ask of a scripted server; without PROGRAMS, list them
	$(BIN)/python -m loadtest.traces $(PROGRAMS)

load-demo: $(VENV)/test $(VENV)/compiled  ## Load servers under a cluster that changes, with reports as pages
	$(BIN)/python -m loadtest.demo

dist: $(VENV)/test  ## Build sdist and wheels into dist/, and check them on each Python found
	$(BIN)/python deploy/distribution/build.py

ci:  ## Run exactly what CI runs
	.ci/run

clean:  ## Remove everything that make creates
	rm -rf $(VENV) site build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf native/target native/fuzz/target native/fuzz/found hsdns/fastpath/*.so
	find hsdns tests loadtest -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment: a file in .venv marks each completed step ---------------------------------------------------

# The first Python that is new enough and can create virtual environments with pip.
$(VENV)/made:
	@for python in $(PYTHON) python3.13 python3.12 python3.11 python3 python3.14 python; do \
	    "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    found=$$python; \
	    "$$python" -c 'import ensurepip, venv' 2>/dev/null || continue; \
	    rm -rf $(VENV); \
	    "$$python" -m venv $(VENV) && touch $@ && exit 0; \
	done; \
	if [ -n "$$found" ]; then \
	    echo "make: $$found has no venv module; on Debian and Ubuntu: apt-get install python3-venv" >&2; \
	else \
	    echo 'make: no Python 3.11 or newer on PATH; install one, or specify it: make PYTHON=/path/to/python3 ...' >&2; \
	fi; exit 1

# It holds what was there to compile with.  If cargo has come since, no file is newer, and yet there is something to do.
COMPILER := $(if $(CARGO),cargo)
ifneq ($(CARGO),)
ifneq ($(shell cat $(VENV)/run 2>/dev/null),$(COMPILER))
.PHONY: $(VENV)/run
endif
endif

$(VENV)/run: $(VENV)/made requirements/run.txt pyproject.toml setup.py $(NATIVE)
	@echo 'make: installing what the server needs into $(VENV), once'
	@$(PIP) install --require-hashes -r requirements/run.txt
	@echo 'make: installing the server$(if $(CARGO), (compiling the fast path takes a minute))'
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@if [ -n '$(CARGO)' ] && ! $(BIN)/python -c 'import hsdns.fastpath._native' 2>/dev/null; then \
	    echo 'make: the fast path was not compiled, so hsdns runs without it: "cd native && cargo build" says why,' \
	        'and after "touch native/Cargo.toml" make tries again' >&2; \
	fi
	@echo '$(COMPILER)' > $@

$(VENV)/test: $(VENV)/run requirements/test.txt
	@echo 'make: installing the tools for tests and checks into $(VENV), once'
	@$(PIP) install --require-hashes -r requirements/test.txt
	@touch $@

$(VENV)/compiled: $(VENV)/run $(SOURCES)
	@$(BIN)/python -m compileall -q hsdns
	@touch $@
