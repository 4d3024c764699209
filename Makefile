# Words for make: setup, demo, test, check, image, bench; lint, types, dashboards, lock for those who
# change the code.
# Every word prepares .venv from the lock file first; that takes a moment when nothing changed.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OPPONENTS := $(VENV)/opponents
LOCK_FLAGS := --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links

ARITHMETIC := tests/models tests/contracts
# Many models, few events each: without the compiler they take a tenth of the time. That compiled and
# plain leave the same bytes is what tests/contracts is for.
PLAIN := $(patsubst %,tests/models/test_%.py,averaged ogb oza adaboost_ol gentle one_vs_rest adwin bbm fit latent \
		conv hoeffding sgb_residual trees) \
	tests/e2e/test_systems.py
# With the contracts, so that both processes of arithmetic end at about one time.
LATE := $(patsubst %,tests/models/test_%.py,losses reference_ogb)

.PHONY: setup demo test check lint types image bench dashboards java tools lock

setup: $(READY)

$(READY): requirements-dev.lock pyproject.toml .ci/setup
	@sh .ci/setup $(VENV)

demo: setup
	@$(BIN)/kaboost demo

# Three processes, for two cores: the arithmetic compiles while the service waits for brokers. It gives
# way to the service, whose learners give way to others themselves.
test: java tools setup
	@nice -n 19 $(BIN)/python -m pytest tests/models $(PLAIN:%=--ignore=%) $(LATE:%=--ignore=%) \
		>$(VENV)/arithmetic.log 2>&1 & beside=$$!; \
	{ NUMBA_DISABLE_JIT=1 nice -n 19 $(BIN)/python -m pytest $(PLAIN) && \
		nice -n 19 $(BIN)/python -m pytest tests/contracts $(LATE); } \
		>$(VENV)/contracts.log 2>&1 & third=$$!; \
	$(BIN)/python -m pytest tests $(ARITHMETIC:%=--ignore=%) $(PLAIN:%=--ignore=%); \
	code=$$?; \
	wait $$beside || code=1; wait $$third || code=1; \
	cat $(VENV)/arithmetic.log $(VENV)/contracts.log; exit $$code

check: lint types test

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	MYPYPATH=$(VENV)/typing $(BIN)/mypy -p kaboost

image: java setup
	@sh deploy/image/build.sh

bench: java setup $(OPPONENTS)/.ready
	@$(OPPONENTS)/bin/python -m bench.kernel
	@$(BIN)/python -m bench.kafka_to_state
	@$(BIN)/python -m bench.predict
	@$(BIN)/python -m bench.startup

# An environment of their own: what only a bench compares with is no part of the product.
$(OPPONENTS)/.ready: requirements-bench.lock $(READY)
	@$(BIN)/python -m venv --clear $(OPPONENTS)
	@$(OPPONENTS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		-r requirements-bench.lock
	@touch $@

dashboards: setup
	@$(BIN)/python -m deploy.grafana.generate

java:
	@sh .ci/java

tools:
	@sh .ci/tools

lock: setup
	$(BIN)/uv pip compile pyproject.toml $(LOCK_FLAGS) $(UPGRADE) -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml $(LOCK_FLAGS) $(UPGRADE) -c requirements.lock \
		--group dev -o requirements-dev.lock
	$(BIN)/uv pip compile pyproject.toml $(LOCK_FLAGS) $(UPGRADE) -c requirements.lock \
		--group bench -o requirements-bench.lock
