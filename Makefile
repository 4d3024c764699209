# Words for make: setup, demo, test, test-long, chaos, check, image, bench, site; lint, types, dashboards, lock for those
# who change the code.
# Every word prepares .venv from the lock file first; that takes a moment when nothing changed.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OPPONENTS := $(VENV)/opponents
LOCK_FLAGS := --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links
# What the image has: all formats, and tokens of identity providers.
FORMATS := --extra auth --extra avro --extra json-schema --extra protobuf

.PHONY: setup demo test test-long chaos check lint types image bench site dashboards sbom java tools chaos-tools lock

setup: $(READY)

$(READY): requirements-dev.lock pyproject.toml .ci/setup
	@sh .ci/setup $(VENV)

demo: setup
	@$(BIN)/kaboost demo

test: java tools setup
	@sh .ci/test

# Soaks, kills by the dozen, every published system in the live service.
test-long: java tools setup
	@sh .ci/long --all

# Faults of processes, brokers, networks, disks and clocks; ARGS=--long for hours, ARGS=--list.
chaos: java chaos-tools setup
	@$(BIN)/python -m tests.chaos $(ARGS)

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

# The docs as pages with a search, in site/. ARGS=serve shows them while they are written.
site: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(or $(ARGS),build)

dashboards: setup
	@$(BIN)/python -m deploy.grafana.generate

# What the image has, as CycloneDX; after a change of the lock file.
sbom: setup
	@$(BIN)/python -m deploy.sbom

java:
	@sh .ci/java

tools:
	@sh .ci/tools

chaos-tools:
	@sh .ci/tools chaos

lock: setup
	$(BIN)/uv pip compile pyproject.toml $(LOCK_FLAGS) $(UPGRADE) $(FORMATS) -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml $(LOCK_FLAGS) $(UPGRADE) -c requirements.lock \
		$(FORMATS) --extra object-store -o requirements-object-store.lock
	$(BIN)/uv pip compile pyproject.toml $(LOCK_FLAGS) $(UPGRADE) -c requirements.lock \
		-c requirements-object-store.lock --group dev -o requirements-dev.lock
	$(BIN)/uv pip compile pyproject.toml $(LOCK_FLAGS) $(UPGRADE) -c requirements.lock \
		--group bench -o requirements-bench.lock
