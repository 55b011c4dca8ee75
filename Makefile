# What a reader or a contributor runs. Needs Python 3.11+ and make; `make` alone lists the targets.
PYTHON ?= python3
ARGS   ?=
START  :=

VENV     := .venv
PY       := $(VENV)/bin/python
NOTEBOOK := $(VENV)/.installed-notebook
TEST     := $(VENV)/.installed-test
DOCS     := $(VENV)/.installed-docs
PINS     := pyproject.toml constraints.txt
JS       := tests/javascript
STRANGERS:= .venv-strangers
CLIENTS  := .venv-clients
JS_TOOLS := $(JS)/node_modules/.installed
# Without progress bars, which come when something takes longer than a second: not everywhere.
KERNELS  := TQDM_DISABLE=1 $(if $(START),PYTHONPATH="$(CURDIR)/tests/start_method" LOADERVIZ_START_METHOD=$(START))
CHECKS   := lint format types layers javascript unit notebooks browser
SLOW     := slow-unit slow-notebooks slow-browser
PYTEST   := $(PY) -m pytest --durations=10

# JupyterLab refuses to start as root (a container, say) unless told.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

# Set in many containers; each process that a test starts would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

# Without a network npm gives up within seconds, not minutes.
export npm_config_fetch_retry_mintimeout := 1000
export npm_config_fetch_retry_maxtimeout := 3000

# $(call or_stop,what failed,the way out) ends a recipe line that may fail.
or_stop = || { printf '\nmake: %s failed.\n%s\n' '$(1)' '$(2)' >&2; exit 1; }

# $(call every,checks) runs them all, even when one fails, and names at the end what did and what
# this machine could not check.
define every
@failed=; for check in $(1); do \
	printf '\n== make %s\n' $$check; \
	$(MAKE) --no-print-directory $$check || failed="$$failed $$check"; \
done; \
echo; $(MAKE) --no-print-directory not-checked; \
if [ "$$failed" ]; then \
	printf 'Failed:%s. Each runs alone as `make NAME`.\n' "$$failed"; exit 1; \
fi; \
printf 'All that ran passed: %s.\n' '$(strip $(1))'
endef

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup lab site docs test test-all slow not-checked strangers clients matrix release pictures plotly strip clean $(CHECKS) $(SLOW)

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' Makefile | expand -t 18

setup: $(NOTEBOOK) ## create .venv with the package and JupyterLab

# Served from here and not from notebooks/, so that their links to the README and the code open.
lab: $(NOTEBOOK) ## open the first notebook; ARGS="--no-browser --port 8899" reach JupyterLab
	$(PY) -m jupyterlab $(AS_ROOT) --LabApp.default_url=/lab/tree/notebooks/00_first_look.ipynb $(ARGS)

site: $(NOTEBOOK) ## make a page of each notebook, in site/; ARGS=notebooks/00_first_look.ipynb just that
	$(PY) pages/build.py $(ARGS)

# With a link to each notebook's page of `make site`, where that has been run before.
docs: $(DOCS) ## make the documentation, in build/docs/html; needs no network
	$(PY) docs/build.py

test: $(TEST) ## run every check but the slow ones, all of them even when one fails
	$(call every,$(CHECKS))

slow: $(TEST) ## run what `make test` leaves out because it must be slow
	$(call every,$(SLOW))

test-all: $(TEST) ## run every check, the slow ones too
	$(call every,$(CHECKS) $(SLOW))

# What this machine lacks the checks have skipped; a tool that npm fetches is there by now, or cannot be.
not-checked:
	@[ "$$LOADERVIZ_CHROMIUM" ] || command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
		|| command -v google-chrome >/dev/null \
		|| echo 'Not checked: notebooks, pages and reports in a browser. There is no Chromium.'
	@command -v npm >/dev/null && [ -e $(JS_TOOLS) ] \
		|| echo 'Not checked: rules and types of the scripts. Their tools need Node with npm, and a network once.'
	@command -v node >/dev/null && [ -e $(VENV)/share/perfetto-trace-processor ] \
		|| echo 'Not checked: what Perfetto reads in an export. Its trace processor needs Node with npm, and a network once.'

lint: $(TEST) ## ruff's rules
	$(PY) -m ruff check

format: $(TEST) ## ruff's formatting
	$(PY) -m ruff format --check

types: $(TEST) ## mypy, strict
	$(PY) -m mypy -n 2

layers: $(TEST) ## who may import whom
	$(VENV)/bin/lint-imports --no-logo

# The one check that needs what pip does not install: where it is missing this says so and goes on,
# unless it is asked for.
javascript: ## rules and types of the scripts that run in the browser; needs Node
	@if [ "$$LOADERVIZ_REQUIRE_NODE" ] || { command -v npm && $(MAKE) -s $(JS_TOOLS); } >/dev/null; then \
		$(MAKE) --no-print-directory --quiet $(JS_TOOLS) && \
		$(JS)/node_modules/.bin/biome lint --error-on-warnings --config-path=$(JS) loaderviz/web tests/browser && \
		$(JS)/node_modules/.bin/tsc -p $(JS); \
	else \
		echo 'Skipped: the scripts in loaderviz/web are checked by npm packages, which cannot be had here.'; \
	fi

# Twice as many processes as most runners have cores, since the tests wait a lot; a process that has
# run out of tests takes some of another's. nbval is for notebooks alone, and slow to import.
UNIT := $(PYTEST) -p no:nbval -n 4 --dist worksteal --ignore=tests/browser --ignore=tests/strangers
unit: $(TEST) ## unit and property tests; ARGS="-n 0 tests/cli" just those, in one process
	$(UNIT) -m 'not slow' $(ARGS)

slow-unit: $(TEST) ## those that are slow: sweeps, and processes that import torch
	$(UNIT) -m slow $(ARGS)

# The longest first, so that the last to end do not run alone.
LONGEST := 16_on_a_server 10_your_own_loader 02_inside_the_dataloader 12_what_a_worker_costs 07_how_many_workers 09_many_ranks
NOTEBOOKS := $(LONGEST:%=notebooks/%.ipynb) $(filter-out $(LONGEST:%=notebooks/%.ipynb),$(wildcard notebooks/*.ipynb))
# What nbval runs are copies with the proofs in them that no reader sees.
PROVEN := build/notebooks
notebooks: $(TEST) ## run every notebook and compare the outputs it keeps; START=spawn as on macOS, TWICE=1
	$(PY) tests/notebooks/proven.py $(PROVEN) $(NOTEBOOKS)
	$(KERNELS) $(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder --nbval-lax --nbval-current-env --nbval-cell-timeout=120 $(NOTEBOOKS:notebooks/%=$(PROVEN)/%)

# The one whose workers are started most often.
SPAWNED := 02_inside_the_dataloader
AGAIN := 04_duplicates_and_losses
slow-notebooks: ## run a notebook with workers that are spawned, as on macOS, and one twice in one kernel
	@$(MAKE) --no-print-directory notebooks START=spawn NOTEBOOKS='$(SPAWNED:%=notebooks/%.ipynb)'
	@$(MAKE) --no-print-directory notebooks TWICE=1 NOTEBOOKS='$(AGAIN:%=notebooks/%.ipynb)'

BROWSER := $(PYTEST) -n 3 --dist loadscope --no-loadscope-reorder tests/browser
browser: $(TEST) ## some notebooks, a page and a report in a real JupyterLab and Chromium
	$(BROWSER) -m 'not slow'

slow-browser: $(TEST) ## every notebook, and whatever else a browser shows
	$(BROWSER) -m slow

# Not part of `make test`: it installs what loaderviz itself has no use for.
strangers: $(STRANGERS)/.installed ## record the loaders of other libraries, in an environment of their own
	$(STRANGERS)/bin/python -m pytest --noconftest tests/strangers $(ARGS)

# With torchvision, which the loaders of `make strangers` must not find.
clients: $(CLIENTS)/.installed ## train with libraries that people use, recorded and not; ARGS="monai timm" just those
	$(CLIENTS)/bin/python benchmarks/clients.py $(ARGS)

# Not part of `make test`: an environment takes 5 GB and minutes.
matrix: ## try other releases of torch; ARGS="2.9.1 2.15.0 --python python3.11 python3.13"
	$(PYTHON) .ci/matrix.py $(ARGS)

release: ## build what would be published, try it in an empty environment, and stop before uploading
	PYTHON=$(PYTHON) bash .ci/release

pictures: $(TEST) ## draw the pictures of the README and the notebooks anew; ARGS=timeline just that
	$(PY) notebooks/images/draw.py $(ARGS)

plotly: $(TEST) ## fetch the part of plotly.js that our figures need, as the pinned plotly has it; needs npm
	$(PY) $(JS)/fetch_plotly.py

strip: $(TEST) ## make the notebooks lean again before a commit
	$(PY) -m nbstripout --keep-count --keep-id --extra-keys metadata.language_info notebooks/*.ipynb

clean: ## remove .venv and everything generated
	rm -rf $(VENV) $(STRANGERS) $(CLIENTS) $(JS)/node_modules build dist site *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find docs loaderviz notebooks tests \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

$(VENV)/pyvenv.cfg:
	@command -v $(PYTHON) >/dev/null \
		$(call or_stop,looking for $(PYTHON),Install Python 3.11 or later or name yours: make PYTHON=/path/to/python3 setup)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		$(call or_stop,checking the version of $(PYTHON),loaderviz needs Python 3.11 or later. Name one: make PYTHON=python3.12 setup)
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); false; } \
		$(call or_stop,creating $(VENV),Python needs its venv and ensurepip modules: on Debian and Ubuntu apt install python3-venv.)

# The touch comes last, so that a set-up that was cut short is taken up again by the next call.
$(NOTEBOOK): $(VENV)/pyvenv.cfg $(PINS)
	@echo 'Installing loaderviz and JupyterLab: minutes the first time (PyTorch is large).'
	@$(PY) -m pip install -c constraints.txt -e '.[notebook]' \
		$(call or_stop,installing with pip,See the error of pip above. Check the network and the free disk space; then run make again.)
	@touch $@

$(DOCS): $(NOTEBOOK)
	@echo 'Installing what makes the documentation.'
	@$(PY) -m pip install --quiet -c constraints.txt -e '.[notebook,docs]' \
		$(call or_stop,installing Sphinx with pip,See the error of pip above. Check the network and the free disk space; then run make again.)
	@touch $@

# torchvision, which litdata brings, is built for PyPI's own torch: it breaks whatever imports it
# beside torch for CPUs, and none of these loaders needs it.
$(STRANGERS)/.installed: tests/strangers/requirements.txt tests/strangers/without-dependencies.txt $(PINS)
	@$(PYTHON) -m venv $(STRANGERS)
	@$(STRANGERS)/bin/python -m pip install --quiet -c constraints.txt -e . -r $< \
		&& $(STRANGERS)/bin/python -m pip install --quiet --no-deps -r tests/strangers/without-dependencies.txt \
		$(call or_stop,installing other libraries with pip,See the error of pip above. Check the network and the free disk space; then run make again.)
	@$(STRANGERS)/bin/python -m pip uninstall --quiet --yes torchvision
	@touch $@

# ultralytics asks for OpenCV with windows, which servers lack; its loader needs none.
$(CLIENTS)/.installed: benchmarks/clients.txt $(PINS)
	@$(PYTHON) -m venv $(CLIENTS)
	@$(CLIENTS)/bin/python -m pip install --quiet -c constraints.txt -e . -r $< \
		&& $(CLIENTS)/bin/python -m pip install --quiet --no-deps ultralytics==8.4.190 \
		$(call or_stop,installing the libraries with pip,See the error of pip above. Check the network and the free disk space; then run make again.)
	@touch $@

# Both are pinned and need nothing else, so there is no lock file.
$(JS_TOOLS): $(JS)/package.json
	@cd $(JS) && npm install --no-package-lock --ignore-scripts --no-audit --no-fund --silent
	@touch $@

# All at once, and Python compiles what is imported when it first is: that takes a minute less.
$(TEST): $(VENV)/pyvenv.cfg $(PINS)
	@echo 'Installing loaderviz, JupyterLab and the tools for the checks: minutes the first time.'
	@$(PY) -m pip install --quiet --no-compile -c constraints.txt -e '.[notebook,test]' \
		$(call or_stop,installing the tools for the checks with pip,See the error of pip above. Check the network and the free disk space; then run make again.)
	@touch $(NOTEBOOK) $@
