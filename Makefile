# Every target sets up what it needs; `make demo` and `make test` are all that a new machine has to run.
VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.installed

.PHONY: demo test test-quick lint format bench slurm clean

demo: $(STAMP)
	@$(VENV)/bin/makeway demo --report out/demo.html

test: $(STAMP) slurm
	$(PYTHON) -m pytest

test-quick: $(STAMP)
	$(PYTHON) -m pytest -m "not slurm and not shared"

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

$(STAMP): pyproject.toml deploy/setup-venv.sh
	@sh deploy/setup-venv.sh $(VENV)
	@touch $@

clean:
	rm -rf $(VENV) out build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
