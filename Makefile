# Everything runs in .venv; `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Minutes each: no part of `make test`.
LONG := tests/lab/test_matrix.py tests/lab/test_registry.py tests/lab/test_provision_faults.py tests/lab/test_lost_hosts.py \
  tests/lab/test_engine_replaced.py tests/lab/test_rdma.py tests/lab/test_rolling.py tests/lab/test_measure.py \
  tests/lab/test_proxy.py tests/lab/test_firewalls.py tests/lab/test_newer_ansible.py tests/lab/test_first_hour_flavours.py \
  tests/lab/test_frameworks.py tests/lab/test_check_defects.py tests/lab/test_pair_matrix_defects.py \
  tests/lab/test_acceptance.py tests/lab/test_slurm.py tests/lab/test_slurm_login.py tests/lab/test_slurm_run.py tests/lab/test_burn_in.py \
  tests/lab/test_provision_remedies.py
# They measure hosts and networks: nothing else runs meanwhile.
ALONE := tests/lab/test_check.py tests/lab/test_check_records.py tests/lab/test_pair_matrix.py

# Container images often set it: then every worker, every run and every program of a test compiles the same files again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo docs needs check test lint lint-python lint-roles format fast run-tests lab-tests lab-tests-all wheel-demo engine faults gpu-role-tests slurm-tests slurm-faults

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 14

$(STAMP): pyproject.toml constraints.txt
	@echo "==> setting up $(VENV) (about two minutes the first time: ansible and torch are large)"
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else 0'
	@$(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,docs,trainer]'
	@site=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
	  rm -rf "$$site/ansible_collections/ddp" && mkdir -p "$$site/ansible_collections/ddp" && \
	  ln -s "$(CURDIR)" "$$site/ansible_collections/ddp/play"
	@touch $(STAMP)

demo: $(STAMP) ## train the bundled example: two ranks on this machine, no Docker, no root
	@echo "==> ddp-play run playbooks/train.yml -i inventory/local"
	@$(BIN)/ddp-play run playbooks/train.yml -i inventory/local
	@echo "==> next: $(BIN)/ddp-play results; . $(BIN)/activate makes it plain ddp-play in this shell"

format: $(STAMP) ## rewrite the code in the house's format
	@$(BIN)/ruff format src tests trainer plugins benchmarks docs
	@$(BIN)/ruff check --fix --unsafe-fixes src tests trainer plugins benchmarks docs

lint: lint-python lint-roles ## format, lint, types, import contracts, YAML and roles

lint-python: $(STAMP)
	@echo "==> ruff, mypy, import contracts"
	@$(BIN)/ruff format --check src tests trainer plugins benchmarks docs
	@$(BIN)/ruff check src tests trainer plugins benchmarks docs
	@$(BIN)/mypy
	@$(BIN)/lint-imports

lint-roles: $(STAMP)
	@echo "==> yamllint, ansible-lint"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/yamllint --strict .
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/ansible-lint --offline --strict --profile production

fast: $(STAMP)
	@echo "==> unit and content tests"
	@$(BIN)/pytest -q --numprocesses 4 --dist worksteal tests/unit tests/content

docs: $(STAMP) ## build the documentation into build/docs; a warning or a dead link inside it fails
	@echo "==> documentation"
	@$(BIN)/sphinx-build -E -b html -W --keep-going -n -q docs build/docs

# The four parts run at the same time; each prints its output in one piece when it ends.
check: $(STAMP) ## everything that needs no Docker, GPU or network; before every commit
	@$(MAKE) --no-print-directory --jobs=4 --output-sync=target fast lint-roles lint-python docs

needs: $(STAMP)
	@$(BIN)/python -m tests.needs

slurm-tests: $(STAMP) needs ## whole runs on a Slurm cluster of three nodes on this machine (Debian's Slurm and munge)
	@echo "==> a Slurm cluster"
	@DDP_PLAY_FAULTS_SLACK=$${DDP_PLAY_FAULTS_SLACK:-3} $(BIN)/pytest -q --durations 10 tests/slurm

slurm-faults: $(STAMP) needs ## every row of the fault table that makes sense on Slurm, with process tracking linuxproc and cgroup
	@echo "==> faults: every row, on a Slurm cluster"
	@DDP_PLAY_FAULTS=all $(BIN)/pytest -q tests/slurm/test_faults.py

run-tests: $(STAMP) needs
	@echo "==> real gloo ranks and whole runs on this machine"
	@$(BIN)/pytest -q --durations 15 -p tests.own_network --numprocesses 2 --dist worksteal -m 'not long' tests/dist tests/run
	@echo "==> remedies: the rows that need no lab"
	@$(BIN)/pytest -q --durations 5 -p tests.own_network --numprocesses 2 --dist worksteal tests/remedies
	@echo "==> faults: the rows that need no lab"
	@DDP_PLAY_FAULTS_SLACK=$${DDP_PLAY_FAULTS_SLACK:-3} $(BIN)/pytest -q --durations 15 tests/faults

long-tests: $(STAMP) needs ## tests of runs and roles on this machine that take long: no part of `make test`
	@$(BIN)/pytest -q --durations 15 -p tests.own_network --numprocesses 2 --dist worksteal -m long tests/dist tests/run

wheel-demo: $(STAMP)
	@echo "==> the demo from a wheel in a clean environment outside the checkout"
	@sh tests/wheel_demo.sh

engine: $(STAMP) needs
	@$(BIN)/python -m tests.engine

lab-tests: $(STAMP) engine
	@echo "==> a lab of real hosts"
	@$(BIN)/pytest -q --durations 15 --numprocesses 2 --dist loadfile -m 'not long' tests/lab $(LONG:%=--ignore %) $(ALONE:%=--ignore %)
	@echo "==> a lab of real hosts: checks that measure"
	@$(BIN)/pytest -q --durations 5 $(ALONE)

lab-tests-all: $(STAMP) engine ## all of the lab's tests, those of minutes each too
	@$(BIN)/pytest -q tests/lab

faults: $(STAMP) engine ## every row of the fault table, here and on a lab (needs a Docker engine)
	@echo "==> faults: every row"
	@DDP_PLAY_FAULTS=all $(BIN)/pytest -q tests/faults

gpu-role-tests: $(STAMP) engine ## the GPU roles on bare container hosts, with stub packages (gpg and a C compiler needed)
	@$(BIN)/pytest -q --durations 15 --numprocesses 3 tests/roles_gpu

gpu-tests: $(STAMP) ## on a machine with an NVIDIA GPU: readings, NCCL, failures of CUDA, hangs, stops, checks
	@DDP_PLAY_REQUIRE_GPU=1 $(BIN)/pytest -q --durations 5 tests/gpu

test: $(STAMP) needs ## everything CI runs, after the demo: one line per part at the end
	@$(BIN)/python -m tests.suite

mutants: $(STAMP) ## see whether tests notice changes of what deletes, stops and decides (SAMPLE=30 SEED=1 ONLY=leases)
	@$(BIN)/python -c 'import cosmic_ray' 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[mutants]'
	@$(BIN)/python -m tests.mutants --sample $(or $(SAMPLE),0) --seed $(or $(SEED),1) --only '$(ONLY)'

# DeepSpeed compiles its operation for CPUs here, because hosts of a lab have no compiler; its setup imports torch and runs ninja.
frameworks: $(STAMP) engine ## jobs of Accelerate, Lightning, Transformers and DeepSpeed on two hosts of a lab (a C++ compiler needed)
	@$(BIN)/python -m tests.lab.framework_packages || { \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt ninja wheel && \
	  PATH="$(CURDIR)/$(BIN):$$PATH" DS_BUILD_SHM_COMM=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    --no-cache-dir --force-reinstall --no-deps --no-build-isolation --constraint constraints.txt deepspeed && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[frameworks]'; }
	@DDP_PLAY_REQUIRE_FRAMEWORKS=1 $(BIN)/pytest -q --durations 15 tests/lab/test_frameworks.py

venv: $(STAMP) ## create .venv with everything development needs
.PHONY: long-tests venv molecule vm matrix mutants frameworks gpu-tests

matrix: $(STAMP) engine ## every way to meet, more of them and for longer than in CI
	@DDP_PLAY_WIDE=1 $(BIN)/pytest -q tests/lab/test_matrix.py

molecule: $(STAMP) engine ## roles on container hosts (needs a Docker engine)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/molecule test --all

vm: $(STAMP) ## virtual machines with kernels of their own: provision, NFS, reboot, a run (root, qemu, over an hour)
	@echo "==> three virtual machines"
	@DDP_PLAY_REQUIRE_VM=1 $(BIN)/pytest -q tests/vm
