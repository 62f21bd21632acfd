# Every target sets up what it needs; `make demo` and `make test` are all that a new machine has to run.
VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.installed
CHROOTS ?= /var/cache/makeway-chroots

.PHONY: demo test test-quick test-slurm test-slurm-24.11 test-slurm-next lint format bench slurm slurm-% clean

demo: $(STAMP)
	@$(VENV)/bin/makeway demo --report out/demo.html

# All tests. Those on a real Slurm run on this machine's and, beside it, on another release: they wait more than they work.
# Every part is run, and it fails if one of them does.
test: $(STAMP) slurm slurm-24.11
	@rest=0; slurm=0; \
	$(PYTHON) -m pytest -n 2 --ignore=tests/slurm || rest=$$?; \
	echo "make test: now on this machine's Slurm and on Slurm 24.11, side by side"; \
	$(MAKE) --keep-going --jobs=2 --output-sync=target --no-print-directory test-slurm test-slurm-24.11 || slurm=$$?; \
	echo "make test: exit status $$rest, $$slurm on a real Slurm"; \
	test "$$rest$$slurm" = 00

test-quick: $(STAMP)
	$(PYTHON) -m pytest -m "not slurm and not shared"

test-slurm: $(STAMP) slurm
	$(SLURM_TESTS)

test-slurm-24.11: $(STAMP) slurm-24.11
	$(call on_release,24.11)

test-slurm-next: $(STAMP) slurm-26.05
	$(call on_release,26.05)

# The tests on a real Slurm, on the one that deploy/install-slurm-chroot.sh has put into a folder.
on_release = MAKEWAY_SLURM_ROOT=$(CHROOTS)/$(1) $(SLURM_TESTS)
# Three files at once: these tests wait more than they work.
SLURM_TESTS = $(PYTHON) -m pytest -n 3 --dist loadfile tests/slurm

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy -p makeway
	$(VENV)/bin/mypy tests bench docs/examples

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
