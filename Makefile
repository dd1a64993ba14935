# `make preview` and `make test` set up the environment; they need only Python 3.11 or newer, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Not ?=, so that an exported ENV variable does not select the stack.
ENV := dev
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
CONFIGS := $(filter-out %.schema.json,$(wildcard policies/policy-config.*.json))

.DEFAULT_GOAL := help
.PHONY: help preview test lint format types types-sdk fuzz charts raise docs release develop lock clean

help:
	@echo "make preview [ENV=dev]  show what stacks/Pulumi.<ENV>.yaml would create; needs no cloud account"
	@echo "make test               run linters, type checks, policy configuration checks and tests"
	@echo "make format             format the code and apply lint fixes"
	@echo "make fuzz [MINUTES=10]  fuzz every parser of untrusted files; keep inputs that crash one"
	@echo "make charts             download the pinned Helm charts for tests/charts into INTO=charts (needs helm)"
	@echo "make raise CHART=FILE   test another version of a chart (WRITE=--write: pin it if all checks pass)"
	@echo "make types-sdk          run type checks that include the cloud SDKs (takes minutes and 7 GB)"
	@echo "make docs               build the documentation site in build/site and check its links"
	@echo "make release            build the release files of this commit in dist/ (TAG=v1.2.3: for that tag)"
	@echo "make develop            install the dependencies of tests and tools"
	@echo "make lock               update the pinned requirements files (needs uv)"
	@echo "make clean              remove the virtual environment and caches"

# A virtual environment contains absolute paths: recreate it in a copied or moved folder.
MADE := $(shell test -x $(BIN)/python && grep -qsF "$$(pwd -P)/$(BIN)/python" $(BIN)/gpupools && echo here)
ifneq ($(MADE),here)
.PHONY: $(READY)
endif

# Commands that start together take turns: each looks again at what is set up once it has the lock.
LOCKED :=
LOCK := import fcntl, os, sys; file = open("Makefile", "r+"); fcntl.flock(file, fcntl.LOCK_EX); \
  os.set_inheritable(file.fileno(), True); os.execvp(sys.argv[1], sys.argv[1:])

# Without .ready the installation was interrupted, and pip may skip half-installed packages: recreate it.
$(READY): requirements.txt pyproject.toml
ifndef LOCKED
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "gpupools needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try make PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c '$(LOCK)' $(MAKE) -s LOCKED=yes $@
else
	@echo "Setting up $(VENV) (once, a minute or two)..." >&2
	@test "$(MADE)" = here -a -e $@ || { rm -rf $(VENV) && $(PYTHON) -m venv $(VENV); }
	@rm -f $@
	@# The cloud SDKs have thousands of modules, and a program imports few: compile only those.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --no-build-isolation -e .
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/gpupools preview >/dev/null 2>&1 || true
	@touch $@
endif

# Additional dependencies of tests and tools.
$(TOOLS): requirements-dev.txt $(READY)
	@echo "Installing the dependencies of the tests..." >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements-dev.txt
	@touch $@

preview: $(READY)
	@$(BIN)/gpupools preview 'stacks/Pulumi.$(ENV).yaml'

# Keep compiled code: compiling takes a tenth of a test run, and more in each program that a test starts.
ONLY :=
test: lint types
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -q -n 2 --dist loadfile $(ONLY)

lint: $(TOOLS)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache >$(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }
	@$(BIN)/gpupools policy --check-config $(CONFIGS) >/dev/null
	@$(BIN)/python tooling/licences.py --check

types: $(TOOLS)
	@$(BIN)/mypy

INTO := charts
charts: $(TOOLS)
	@PYTHONPATH=. $(BIN)/python tooling/pull_charts.py '$(INTO)'

# Needs helm on PATH and GPUPOOLS_CHARTS, like tests/charts.
WRITE :=
raise: $(TOOLS)
	@PYTHONPATH=. $(BIN)/python tooling/raise_chart.py '$(CHART)' $(WRITE)

# Minutes per parser; READERS="documents user-data" selects some.
MINUTES := 10
READERS :=
fuzz: $(TOOLS)
	@PYTHONPATH=. $(BIN)/python tooling/fuzz.py $(MINUTES) $(READERS)

types-sdk: $(TOOLS)
	@$(BIN)/mypy --config-file tooling/mypy_sdk.ini

docs: $(TOOLS)
	@PYTHONPATH=. $(BIN)/python tooling/write_site.py

# Publishes nothing and creates no tag.
TAG :=
release: $(TOOLS)
	@$(BIN)/python tooling/release.py $(if $(TAG),--tag '$(TAG)')

develop: $(TOOLS)

format: $(TOOLS)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-header
lock:
	$(COMPILE) --extra all --group build pyproject.toml -o requirements.txt
	$(COMPILE) --extra all --group build --group dev -c requirements.txt pyproject.toml -o requirements-dev.txt
	$(COMPILE) --no-annotate --group docs -c requirements-dev.txt -o requirements-docs.txt
	$(COMPILE) --no-annotate --group release -c requirements-dev.txt -o requirements-release.txt
	$(COMPILE) --no-annotate -c requirements.txt pyproject.toml -o requirements-check.txt

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache build
