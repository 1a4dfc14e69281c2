# `make run` shows an agent at work on a throwaway project; `make quick` and `make test` run the checks.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: dist run quick test test-long test-all check sizes rules hooks test-conformance test-clients test-web test-fleet test-install docs scoreboard bench specs format lock clean

$(READY): pyproject.toml requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements-dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# A small environment of its own, unless the one for development is there already.
DEMO := .venv-demo
$(DEMO)/.ready: pyproject.toml requirements-demo.txt
	@echo "1/3  a virtual environment in $(DEMO)"
	@$(PYTHON) -m venv $(DEMO)
	@echo "2/3  $$(grep -c == requirements-demo.txt) packages, about 15 MB to download, 90 MB on disk"
	@$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --requirement requirements-demo.txt
	@echo "3/3  Handrail itself, from this checkout"
	@$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

run:
	@if [ -e $(READY) ]; then $(BIN)/handrail demo; \
	else $(MAKE) --no-print-directory $(DEMO)/.ready && $(DEMO)/bin/handrail demo; fi

# More workers than cores: many tests wait for a process or for a limit of time.
WORKERS := 4

# A minute and a half: lint, types, and the tests that start no process of ours.
QUICK := tests/text tests/patches tests/scenarios tests/tools tests/dialects tests/seeds tests/pipeline tests/policy \
	tests/settings tests/secrets tests/test_tracker.py tests/test_workspace.py tests/test_public_names.py
quick: $(READY) check
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow" $(QUICK)

# Everything, with bounded samples (tests/sizes.py). Tests that fail beside others run once more, alone: the first report
# names them. One that only passes alone is a defect of the test or a race of ours, and worth fixing.
test: $(READY) check
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal || \
		{ [ $$? -eq 1 ] && echo "Once more, alone:" && $(BIN)/python -m pytest --last-failed --last-failed-no-failures none; }
	@echo "Samples were bounded, and tests marked long were left out: make test-long runs them all."

# Everything, with full samples: fuzzing, every kill point, soaks.
test-long: $(READY) check
	HANDRAIL_LONG=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Every lane in turn, as the hosted CI runs them; takes hours. The lanes below say what each of them needs.
test-all: test-long test-conformance test-clients test-web test-fleet test-install docs

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy tests
	$(BIN)/lint-imports
	$(BIN)/python scripts/sizes.py --quiet
	$(BIN)/python scripts/shape.py --quiet

# Statements of each package beside its budget in pyproject.toml; cycles, layers, classes and functions beside their limits.
sizes: $(READY)
	$(BIN)/python scripts/sizes.py
	$(BIN)/python scripts/shape.py

# What each rule of matching buys: every one is switched off once. DATA names folders with more cases; scripts/rule_cases.py.
rules: $(READY)
	$(BIN)/python scripts/rules.py $(if $(DATA),--data $(DATA))

# The hooks of .pre-commit-config.yaml: format, lint and types before each commit.
hooks: $(READY)
	$(BIN)/python -m pip install --quiet pre-commit
	$(BIN)/pre-commit install

# Not in `make test`: needs npm, and installs the protocol's suite (and the Node.js it asks for) into a temporary folder.
CONFORMANCE := @modelcontextprotocol/conformance@0.2.0-alpha.12 node@22
test-conformance: $(READY)
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && npm install --silent --no-save --prefix "$$folder" $(CONFORMANCE) && \
		HANDRAIL_CONFORMANCE="$$folder" $(BIN)/python -m pytest tests/mcp/test_http_conformance.py

# Not in `make test`: needs npm, and installs real clients (about 1.3 GB) into a cache folder; docs/mcp.md says which.
# The framework's tests of a sandbox come into a temporary folder, without the plugins for pytest that they name.
SANDBOX_SUITE := langchain-tests==1.1.9
test-clients: $(READY)
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target "$$folder" $(SANDBOX_SUITE) && \
		HANDRAIL_CLIENTS=1 PYTHONPATH="$$folder" $(BIN)/python -m pytest tests/clients tests/integrations/test_deepagents_suite.py

# Not in `make test`: needs the packages chromium and chromium-driver of the distribution (apt-get install them first).
test-web: $(READY)
	HANDRAIL_WEB=1 $(BIN)/python -m pytest tests/chromium

# Not in `make test`: installs openssh-server and PostgreSQL with apt-get where they are missing, and Ray into this environment;
# the tests start them, on loopback and in temporary folders; docs/fleet.md.
test-fleet: $(READY)
	command -v /usr/sbin/sshd >/dev/null || apt-get install --yes --quiet --no-install-recommends openssh-server openssh-client
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || apt-get install --yes --quiet --no-install-recommends postgresql
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'ray>=2.50'
	HANDRAIL_FLEET=1 $(BIN)/python -m pytest tests/remote tests/fleet tests/docs/test_examples.py

# Not in `make test`: installs Handrail into a new environment, without a compiler, and runs README and tutorial there.
test-install: $(READY)
	HANDRAIL_INSTALL=1 $(BIN)/python -m pytest tests/install

# The documentation site, in site/: links are checked, the reference is made from the code.
docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-docs.txt
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

# Wheel and source distribution in dist/, checked, installed into a new environment from the wheel alone, and run there.
dist:
	rm -rf dist
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && $(PYTHON) -m venv "$$folder/build" "$$folder/try" && \
		"$$folder/build/bin/python" -m pip install --quiet --disable-pip-version-check build twine && \
		"$$folder/build/bin/python" -m build --outdir dist . && "$$folder/build/bin/python" -m twine check --strict dist/* && \
		"$$folder/try/bin/python" -m pip install --quiet --disable-pip-version-check dist/*.whl && \
		cd "$$folder" && "$$folder/try/bin/handrail" --version && "$$folder/try/bin/handrail" demo --tools

scoreboard: $(READY)
	$(BIN)/python -m tests.seeds.scoreboard

bench: $(READY)
	$(BIN)/python -m benchmarks

specs: $(READY)
	$(BIN)/python -m handrail.mcp.build_specs

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --strip-extras --no-emit-index-url --no-emit-find-links --no-header --no-annotate --all-extras --upgrade \
		--output-file requirements-dev.txt requirements-dev.in pyproject.toml
	$(BIN)/pip-compile --quiet --strip-extras --no-emit-index-url --no-emit-find-links --no-header --no-annotate \
		--constraint requirements-dev.txt --output-file requirements-demo.txt requirements-demo.in pyproject.toml

clean:
	rm -rf $(VENV) $(DEMO) site .mypy_cache .ruff_cache .import_linter_cache .hypothesis
