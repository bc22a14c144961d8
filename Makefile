# Everything runs in .venv; `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SITE = $(shell $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

.PHONY: help demo check test lint format unit dist demo-wheel molecule faults clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 14

$(STAMP): pyproject.toml constraints.txt
	@echo "==> setting up $(VENV) (about two minutes the first time: ansible and torch are large)"
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else 0'
	@$(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,trainer]'
	@rm -rf $(SITE)/ansible_collections/ddp && mkdir -p $(SITE)/ansible_collections/ddp
	@ln -s $(CURDIR) $(SITE)/ansible_collections/ddp/play
	@touch $(STAMP)

venv: $(STAMP) ## create .venv with everything development needs
.PHONY: venv

molecule: $(STAMP) ## roles on container hosts (needs a Docker engine)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/molecule test --all
