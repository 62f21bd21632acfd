# Every target installs what it needs. On a new machine `make demo` and `make test` are enough.
VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.installed
CHROOTS ?= /var/cache/makeway-chroots

# The tests start the daemon many hundred times, which is faster if Python keeps what it has compiled.
unexport PYTHONDONTWRITEBYTECODE
# The idle threads of numpy's OpenBLAS use processor time, and the tests start hundreds of processes.
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo afternoon afternoon-clean test test-rest test-slurm-quietly test-slurm-24.11-quietly test-quick test-busy test-slurm test-slurm-24.11 test-slurm-next test-python-3.13 swarm swarm-slurm lint docs packages deb deb-test rpm rpm-test format bench bench-fight browser slurm slurm-accounting slurm-% pyslurm-24.11 clean

demo: $(STAMP)
	@mkdir -p out
	@$(VENV)/bin/makeway demo --report out/demo.html

# From a plain Slurm to makeway and back, as docs/afternoon.md says, with the time that each part takes.
afternoon: $(STAMP) slurm
	@$(PYTHON) -m pytest -q -rP tests/docs/test_afternoon.py

# All tests: without Slurm, on this machine's Slurm, and on another release, at the same time. Those on a real Slurm wait
# more than they work. Every part runs, and the target fails if a part fails. A first look at the tests of each part compiles
# them, so that not every worker does. The other release is installed while the first two parts run.
test: $(STAMP) slurm-accounting browser
	@mkdir -p out
	@$(PYTHON) -m pytest --collect-only -q tests/slurm >out/tests-on-slurm.txt || { cat out/tests-on-slurm.txt; exit 1; }
	@echo "make test: three parts at the same time; the two on a real Slurm print when they have ended"
	@$(MAKE) --keep-going --jobs=3 --no-print-directory INSTALL_LOGS=out test-rest test-slurm-quietly test-slurm-24.11-quietly

test-rest: $(STAMP) browser
	@mkdir -p out
	@nice -n 4 $(PYTHON) -m pytest --collect-only -q --ignore=tests/slurm >out/tests-rest.txt || { cat out/tests-rest.txt; exit 1; }
	nice -n 4 $(PYTHON) -m pytest -n 3 --dist worksteal --ignore=tests/slurm

# No second make runs in these: it would take the job slot of another part. Tests that do not depend on the release of Slurm
# run on one of the two; `make test-slurm` runs all of them on this machine's, and `make test-slurm-next` those that need 26.05.
test-slurm-quietly: $(STAMP) slurm-accounting
	@$(call quietly,$(SLURM_TESTS) $(call leave_out,24.11))

test-slurm-24.11-quietly: $(STAMP) slurm-accounting slurm-24.11 pyslurm-24.11
	@$(call quietly,$(call on_release,24.11) $(call leave_out,22.05))

leave_out = -m 'not one_release(on="$(1)") and not one_release(on="26.05")'
# With more of the processors than the part without Slurm: the longer these tests take, the more often they look.
quietly = status=0; env $(1) >out/$@.log 2>&1 || status=$$?; cat out/$@.log; exit $$status

# The same with four busy loops next to it: tests must not depend on how fast the machine is.
test-busy: $(STAMP)
	sh tests/busy.sh $(MAKE) test

test-quick: $(STAMP)
	$(PYTHON) -m pytest -m "not slurm and not shared"

test-slurm: $(STAMP) slurm-accounting
	$(SLURM_TESTS)

test-slurm-24.11: $(STAMP) slurm-accounting slurm-24.11 pyslurm-24.11
	$(call on_release,24.11)

test-slurm-next: $(STAMP) slurm-accounting slurm-26.05
	$(call on_release,26.05)

# Tests of the daemon, and replays under each policy, with the Python of Debian 13, which warns of more than that of Debian 12.
# Needs root.
test-python-3.13: $(STAMP) slurm-24.11
	env -u CI nice -n 4 sh tests/newer_python.sh $(CHROOTS)/24.11 -q -n 2 tests/daemon/control tests/daemon/journal tests/daemon/leader \
		tests/simharness/run/test_replay.py::test_two_replays_are_alike tests/simharness/run/test_two_urgent_jobs.py

# The tests on a real Slurm: the release that deploy/install-slurm-chroot.sh has installed in a folder.
on_release = MAKEWAY_SLURM_ROOT=$(CHROOTS)/$(1) $(SLURM_TESTS)
# Eight files at once, the longest first: these tests wait more than they work. A test that fails runs again, twice at
# most, and is listed: Slurm has races of its own where it is killed (RERUNS=0 for none).
RERUNS ?= 2
SLURM_TESTS = $(PYTHON) -m pytest -n 8 --dist loadfile --no-loadscope-reorder --reruns $(RERUNS) -raR tests/slurm

# The daemon in random troubles on simulated clusters: every law is checked at every command. SWARM="--stories 5000" for more.
SWARM ?= --stories 1200 --jobs 2
swarm: $(STAMP)
	nice -n 4 $(VENV)/bin/makeway swarm $(SWARM)

# Random stories on two real Slurms, while the daemon and slurmctld are killed, hang, and lose their files.
STORIES ?= 20
SEED ?= 0
swarm-slurm: $(STAMP) slurm-accounting slurm-24.11
	$(SWARM_SLURM)
	MAKEWAY_SLURM_ROOT=$(CHROOTS)/24.11 $(SWARM_SLURM)

SWARM_SLURM = MAKEWAY_SWARM_SEED=$(SEED) MAKEWAY_SWARM_STORIES=$(STORIES) $(PYTHON) -m pytest -n 4 -rP tests/slurm/loop/test_swarm_slurm.py

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy -p makeway
	$(VENV)/bin/mypy tests bench docs/examples docs/generate
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(VENV)/bin/pyright

# Both packages, built at once, each in a copy of a clean Debian: that for Debian along the afternoon of the documentation, that
# for EL 9 meanwhile. Needs root.
packages: $(STAMP)
	@sh deploy/package/test-both.sh $(CURDIR)/$(PYTHON) out

# The documentation as a site in out/site. A broken link or anchor is an error. The variable turns off an advertisement.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict --quiet
	@echo "out/site/index.html"

# A package for Debian or for EL 9 with the Python of this machine, in out/.
deb: $(STAMP)
	@$(call package,deb)

rpm: $(STAMP)
	@$(call package,rpm)

package = sh deploy/package/build.sh $(1) $(CURDIR)/$(PYTHON) out

# Installs and removes it in a clean Debian, which takes some minutes. Needs root.
deb-test: $(STAMP)
	@$(call test_package,deb)

rpm-test: $(STAMP)
	@$(call test_package,rpm)

# A stranger's afternoon in a clean Debian, with the package and a Slurm that has accounting. Needs root.
afternoon-clean: $(STAMP)
	@file=$$($(call package,deb)) && sh deploy/package/afternoon.sh "$$file" $(PYTHON)

test_package = file=$$($(call package,$(1))) && sh deploy/package/test-$(1).sh "$$file"

format: $(STAMP)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(STAMP)
	$(PYTHON) -m pytest bench --benchmark-only -o addopts="--import-mode=importlib" -q -s

# Plain Slurm, its own preemption and makeway on one workload, on a real Slurm: FIGHT="--rounds 1" for less.
bench-fight: $(STAMP) slurm-accounting
	$(PYTHON) -m bench.fight $(FIGHT)

browser:
	@sh deploy/install-browser.sh

slurm:
	@sh deploy/install-slurm.sh

slurm-accounting:
	@sh deploy/install-slurm.sh accounting

slurm-%:
	@$(call logged,MAKEWAY_CHROOTS=$(CHROOTS) sh deploy/install-slurm-chroot.sh $*)

# pyslurm in the same folder, for the tests of the reader that uses it.
pyslurm-24.11: slurm-24.11 $(STAMP)
	@$(call logged,MAKEWAY_CHROOTS=$(CHROOTS) MAKEWAY_PYTHON=$(PYTHON) sh deploy/install-pyslurm-chroot.sh 24.11)

# With a folder in INSTALL_LOGS, what an installation prints is shown only if it fails.
logged = $(if $(INSTALL_LOGS),{ $(1); } >$(INSTALL_LOGS)/$@.log 2>&1 || { status=$$?; cat $(INSTALL_LOGS)/$@.log; exit $$status; },$(1))

$(STAMP): pyproject.toml deploy/setup-venv.sh
	@sh deploy/setup-venv.sh $(VENV)
	@touch $@

clean:
	rm -rf $(VENV) out build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
