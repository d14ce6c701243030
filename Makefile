# Handspan: `make demo` shows it, `make test` tests it. On a fresh Debian or macOS machine with make
# and Python 3.11 or newer, each target makes what it needs by itself, in .venv and nowhere else.

VENV := .venv
BIN := $(VENV)/bin
CLIENT_TESTS := tests/client
NODE_MODULES := $(CLIENT_TESTS)/node_modules
PORT ?= 8765

# One that can also make a virtual environment, else any that is new enough.
FIND_PYTHON = for test in 'import ensurepip, venv' ''; do \
	for name in python3 python3.13 python3.12 python3.11 python3.14 python; do \
		if command -v $$name >/dev/null 2>&1 \
			&& $$name -c "$$test" >/dev/null 2>&1 \
			&& $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
		then command -v $$name; exit; fi; \
	done; done

.PHONY: demo test long lint mirrors mutants clean runtime dev

demo: runtime
	@$(BIN)/handspan demo --port $(PORT)

test: dev $(NODE_MODULES)/.made
	@sh .ci/install browser || true
	@$(BIN)/python -m pytest

long: dev $(NODE_MODULES)/.made
	@sh .ci/install browser || true
	@HANDSPAN_LONG=1 $(BIN)/python -m pytest -o faulthandler_timeout=3600

lint: dev $(NODE_MODULES)/.made
	@VENV=$(VENV) sh .ci/lint

mirrors: dev
	@$(BIN)/python -m tests.mirrors

mutants: dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check cosmic-ray
	@$(BIN)/python -m tests.mutation

clean:
	rm -rf $(VENV) $(NODE_MODULES) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		.import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

runtime: $(VENV)/.runtime
dev: $(VENV)/.dev

$(BIN)/python:
	@python=$$($(FIND_PYTHON)); \
	if [ -z "$$python" ]; then \
		echo 'Handspan needs Python 3.11 or newer, and none was found.' >&2; exit 1; \
	fi; \
	if ! $$python -c 'import ensurepip, venv' >/dev/null 2>&1; then \
		echo "$$python cannot make virtual environments: apt install python3-venv" >&2; exit 1; \
	fi; \
	echo "making $(VENV) with $$python"; \
	$$python -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.runtime: pyproject.toml $(BIN)/python
	@echo 'installing what Handspan runs on'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@echo 'installing what the tests need'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --group dev
	@$(BIN)/python -m pip install --quiet --no-deps --group dev-alone
	@touch $@

# Without npm, or without a network, the tests that need these tools are skipped by name.
$(NODE_MODULES)/.made: $(CLIENT_TESTS)/package.json
	@if command -v npm >/dev/null 2>&1; then \
		echo 'installing what the JavaScript tests need'; \
		(cd $(CLIENT_TESTS) && npm install --silent --no-package-lock --no-audit --no-fund \
			&& touch node_modules/.made) \
			|| echo 'npm could not install it: some JavaScript tests will be skipped'; \
	else echo 'no npm: some JavaScript tests will be skipped'; fi
