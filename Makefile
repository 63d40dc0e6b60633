# Commands on a fresh machine with Python ≥ 3.11 and make:
#   make demo       set-up, then the main job on embedded data
#   make test       set-up, then all checks and tests, without the slow ones
#   make test-all   the same and the slow ones, with coverage of the whole package, the wheel in a new environment, and the site: an hour
#   make docs       the site, in build/site: guide, papers, reference, notebooks; it works offline
.PHONY: demo test test-all docs lint style bench setup format clean help
.DEFAULT_GOAL := help

PYTHON ?= python3
# Bytecode is kept, whatever the machine says: each of the many processes of the tests then starts in half the time.
export PYTHONDONTWRITEBYTECODE :=
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-compile  # what is imported is compiled then
WRITER := .venv/.docs-$(shell cat docs/requirements.txt | cksum | cut -d' ' -f1)  # what the site needs
READY := .venv/.ready-$(shell cat requirements.txt pyproject.toml | cksum | cut -d' ' -f1)
TEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal
HOOK := --jaxtyping-packages=regard,beartype.beartype
CORE := '*/score/*,*/align/*,*/attention/*'
COVER := --cov=regard --cov-config=tests/coverage.toml --cov-report=  # in test-all: it takes a third of the time

help:
	@sed -n '1,5s/^# *//p' Makefile

setup: $(READY)

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "regard needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 …"; exit 1; }
	@echo "Setting up .venv (once; a minute or two) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || \
	  { rm -rf .venv; echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@{ $(PIP) -r requirements.txt && $(PIP) --no-deps --no-build-isolation -e .; } > .venv/setup.log 2>&1 || \
	  { tail -n 20 .venv/setup.log; echo "The set-up failed; the whole story is in .venv/setup.log"; exit 1; }
	@$(BIN)/python -c 'import torch, jaxtyping, matplotlib, pytest, regard'
	@rm -f .venv/.ready-*
	@touch $@

demo: $(READY)
	@$(BIN)/regard demo

test: $(READY) style
	$(TEST) $(HOOK) -m "not bare and not gpu and not slow"
	$(TEST) -m "bare and not gpu and not slow" $$(grep -rl --include='test_*.py' 'pytest.mark.bare' tests)

docs: $(READY) $(WRITER)
	@$(BIN)/python tools/make_docs.py

$(WRITER): docs/requirements.txt | $(READY)
	@echo "Installing what the site needs (once) …"
	@$(PIP) -c requirements.txt -r docs/requirements.txt > .venv/docs.log 2>&1 || { tail -n 20 .venv/docs.log; exit 1; }
	@touch $@

test-all: $(READY) $(WRITER) style
	@rm -f .coverage .coverage.*
	$(TEST) $(HOOK) $(COVER) -m "not bare and not gpu"
	$(TEST) $(COVER) --cov-append -m "bare and not gpu" $$(grep -rl --include='test_*.py' 'pytest.mark.bare' tests)
	@$(BIN)/python -m coverage report --rcfile=tests/coverage.toml --fail-under=90
	@$(BIN)/python -m coverage report --rcfile=tests/coverage.toml --include=$(CORE) --skip-covered --fail-under=95
	$(BIN)/python tools/check_wheel.py
	$(BIN)/python tools/make_docs.py

lint: $(READY) style
	@$(BIN)/mypy

style: $(READY)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .

format: $(READY)
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .

bench: $(READY)
	@$(BIN)/python benchmarks/multihead.py
	@$(BIN)/python benchmarks/additive_cpu.py

clean:
	rm -rf .venv demo tour runs .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
