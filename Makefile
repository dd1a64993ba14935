# `make preview` and `make test` set themselves up: they need Python 3.11 or newer, git and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Not ?=, which would let an ENV that happens to be exported choose the stack.
ENV := dev
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
CONFIGS := $(filter-out %.schema.json,$(wildcard policies/policy-config.*.json))

.DEFAULT_GOAL := help
.PHONY: help preview test lint format types types-sdk fuzz charts raise docs release develop lock clean

help:
	@echo "make preview [ENV=dev]  show what stacks/Pulumi.<ENV>.yaml would create, offline"
	@echo "make test               lint, types, policy configurations and tests"
	@echo "make format             rewrite the code in the project's format"
	@echo "make fuzz [MINUTES=10]  spoil what each reader of other people's files reads, and keep what crashes it"
	@echo "make charts             fetch the pinned charts for tests/charts into INTO=charts (needs helm)"
	@echo "make raise CHART=FILE   try a chart in another version (WRITE=--write: pin it if everything holds)"
	@echo "make types-sdk          types again, following the clouds' SDKs too (minutes, 7 GB)"
	@echo "make docs               build the documentation's site into build/site, links checked"
	@echo "make release            build what a release of this commit would be into dist/ (TAG=v1.2.3: for that tag)"
	@echo "make develop            set up what tests and tools need"
	@echo "make lock               resolve the requirements files anew (needs uv)"
	@echo "make clean              remove the environment and caches"

# An environment runs the code of the folder it was made in: in a copied or moved one, its command names another place.
MADE := $(shell test -x $(BIN)/python && grep -qsF "$$(pwd -P)/$(BIN)/python" $(BIN)/gpupools && echo here)
ifneq ($(MADE),here)
.PHONY: $(READY)
endif

# Without its mark an environment is half-made, and pip would take what is half-installed for installed: make it anew.
$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "gpupools needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try make PYTHON=python3.12" >&2; exit 2; }
	@echo "Setting up $(VENV) (once, a minute or two)..." >&2
	@test "$(MADE)" = here -a -e $@ || { rm -rf $(VENV) && $(PYTHON) -m venv $(VENV); }
	@rm -f $@
	@# The clouds' SDKs hold thousands of modules of which a program imports a handful: compile only those.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --no-build-isolation -e .
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/gpupools preview >/dev/null 2>&1 || true
	@touch $@

# What tests and tools need besides.
$(TOOLS): requirements-dev.txt $(READY)
	@echo "Adding what the tests need..." >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements-dev.txt
	@touch $@

preview: $(READY)
	@$(BIN)/gpupools preview 'stacks/Pulumi.$(ENV).yaml'

# Compiled code is kept, as it is for most users: compiling the tests anew is a tenth of a run, and more in each program.
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

# Needs helm on PATH and GPUPOOLS_CHARTS, as tests/charts do.
WRITE :=
raise: $(TOOLS)
	@PYTHONPATH=. $(BIN)/python tooling/raise_chart.py '$(CHART)' $(WRITE)

# Minutes for each reader; READERS="documents user-data" names some.
MINUTES := 10
READERS :=
fuzz: $(TOOLS)
	@PYTHONPATH=. $(BIN)/python tooling/fuzz.py $(MINUTES) $(READERS)

types-sdk: $(TOOLS)
	@$(BIN)/mypy --config-file tooling/mypy_sdk.ini

docs: $(TOOLS)
	@PYTHONPATH=. $(BIN)/python tooling/write_site.py

# Publishes nothing and makes no tag.
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
