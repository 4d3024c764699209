# Words for make: setup, demo, test, check; lint, types, lock for those who change the code.
# Every word prepares .venv from the lock file first; that takes a moment when nothing changed.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOCK_FLAGS := --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links

.PHONY: setup demo test check lint types java lock

setup: $(READY)

$(READY): requirements-dev.lock pyproject.toml .ci/setup
	@sh .ci/setup $(VENV)

demo: setup
	@$(BIN)/kaboost demo

test: java setup
	@$(BIN)/python -m pytest

check: lint types test

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy --strict service models

java:
	@sh .ci/java

lock: setup
	$(BIN)/uv pip compile pyproject.toml $(LOCK_FLAGS) $(UPGRADE) -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml $(LOCK_FLAGS) $(UPGRADE) -c requirements.lock \
		--group dev -o requirements-dev.lock
