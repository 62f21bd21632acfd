# Every target sets up what it needs; `make demo` and `make test` are all that a new machine has to run.
VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# Two processes, each with its own files: tests on a real Slurm wait more than they work.
PYTEST := $(PYTHON) -m pytest -n 2 --dist loadfile
CHROOTS ?= /var/cache/makeway-chroots

.PHONY: demo test test-quick test-slurm test-slurm-24.11 test-slurm-next lint format bench slurm slurm-% clean

demo: $(STAMP)
	@$(VENV)/bin/makeway demo --report out/demo.html

# All tests, on this machine's Slurm, and those on a real Slurm once more on another release; fails if either run does.
test: $(STAMP) slurm slurm-24.11
	@first=0; second=0; \
	$(PYTEST) || first=$$?; \
	echo "make test: now on Slurm 24.11"; \
	$(call on_release,24.11) || second=$$?; \
	echo "make test: exit status $$first, and $$second on Slurm 24.11"; \
	test "$$first$$second" = 00

test-quick: $(STAMP)
	$(PYTEST) -m "not slurm and not shared"

test-slurm: $(STAMP) slurm
	$(PYTEST) tests/slurm

test-slurm-24.11: $(STAMP) slurm-24.11
	$(call on_release,24.11)

test-slurm-next: $(STAMP) slurm-26.05
	$(call on_release,26.05)

# The tests on a real Slurm, on the one that deploy/install-slurm-chroot.sh has put into a folder.
on_release = MAKEWAY_SLURM_ROOT=$(CHROOTS)/$(1) $(PYTEST) tests/slurm

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy -p makeway
	$(VENV)/bin/mypy tests bench

format: $(STAMP)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(STAMP)
	$(PYTHON) -m pytest bench --benchmark-only -o addopts="--import-mode=importlib" -q -s

slurm:
	@sh deploy/install-slurm.sh

slurm-%:
	@MAKEWAY_CHROOTS=$(CHROOTS) sh deploy/install-slurm-chroot.sh $*

$(STAMP): pyproject.toml deploy/setup-venv.sh
	@sh deploy/setup-venv.sh $(VENV)
	@touch $@

clean:
	rm -rf $(VENV) out build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
