# The tasks of this repository. `make` lists them. All tasks run in .venv.

BIN     := .venv/bin
STAMP   := .venv/.stamp
# A distribution compiles its Python with a profile. This makes the tests a quarter faster.
PYTHONS := /usr/bin/python3.11 /usr/bin/python3 python3.11 python3
JAVAS   := 17 21 25

SEEDS   ?= 200
START   ?= 0
CYCLES  ?= 100
N       ?= 100000
MINUTES ?= 60
FLIGHTS ?= 0
STATES  ?= 20000

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# As root, installs the first available Debian package of $(1); otherwise names the missing package.
APT = if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo "setup: apt-get install $(firstword $(1))"; export DEBIAN_FRONTEND=noninteractive; \
	    apt-get update -qq; \
	    for package in $(1); do \
	        apt-get install -qq --no-install-recommends $$package > /dev/null && break; \
	    done; \
	else echo "setup: please install the Debian package $(firstword $(1))"; fi

.PHONY: help setup quick test long check format docs demo roundtrip bench figures sim crash hostile stream snapshots inject powercut cutoff fuzz soak mutate \
    lock clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/\1\t\2/p' Makefile | expand -t 10 | sed 's/^/  make /'

setup: $(STAMP) ## create .venv from the locked requirements, and install Java for Spark

$(STAMP): requirements.lock pyproject.toml
	@for python in $(PYTHONS); do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then \
	        $$python -c 'import ensurepip' 2> /dev/null && break; \
	        $(call APT,python3-venv); \
	        $$python -c 'import ensurepip' 2> /dev/null && break; \
	    fi; \
	    python=; \
	done; \
	[ "$$python" ] || { echo "setup: requires Python 3.11 or newer with venv (Debian: python3-venv)"; exit 1; }; \
	echo "setup: .venv with $$($$python --version)"; \
	$$python -m venv .venv
	@java=$$($${JAVA_HOME:+$$JAVA_HOME/bin/}java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'); \
	case " $(JAVAS) " in \
	    *" $${java:-none} "*) ;; \
	    *) echo "setup: Spark needs Java 17, 21 or 25"; \
	       $(call APT,$(JAVAS:%=openjdk-%-jre-headless));; \
	esac
	@command -v cc > /dev/null || { echo "setup: the power-cut test needs a C compiler"; $(call APT,build-essential); }
	@command -v strace > /dev/null || { echo "setup: tests need strace, which makes system calls fail"; $(call APT,strace); }
# The package would otherwise create a database cluster, and start it.
	@ls /usr/lib/postgresql/*/bin/postgres > /dev/null 2>&1 || command -v postgres > /dev/null || { \
	    echo "setup: tests of the journal in PostgreSQL need its server"; clusters=/etc/postgresql-common/createcluster.d; \
	    [ ! -w /etc ] || { mkdir -p $$clusters && echo 'create_main_cluster = false' > $$clusters/qmgrd.conf; }; \
	    $(call APT,postgresql); rm -f $$clusters/qmgrd.conf; }
	@echo "setup: the locked requirements (the first time takes one to three minutes, because PySpark is large)"
	@$(BIN)/pip install --quiet --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@
	@echo "setup: done"

test: setup ## run the whole test suite; ARGS="-k queue" selects tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -q $(ARGS)

quick: setup ## run the unit tests of the core and the protocol, in less than a minute; ARGS=
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not long and not slow" tests/qmgrd/core tests/qmgr_protocol $(ARGS)

long: setup ## run the tests that take long: clusters, campaigns, benchmarks, old seeds of the simulator
	$(BIN)/python -m pytest -q -m long $(ARGS)

check: setup ## run the checks of CI: format, lint, types, imports, simulator, tests
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@$(MAKE) --no-print-directory sim SEEDS=60
	@$(MAKE) --no-print-directory test

format: setup ## format the code
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

docs: setup ## build the site in build/site; broken links are errors
	@$(BIN)/python -m docs.build

demo: setup ## run a complete example with real flights; FLIGHTS=n: only the first n
	@$(BIN)/python -m qmgr_demo --flights $(FLIGHTS)

roundtrip: setup ## put flights on a queue, and read them with Spark, from Parquet and from Delta; FLIGHTS=n
	@$(BIN)/python -m tests.pyspark_qmgr.roundtrip --flights $(FLIGHTS)

bench: setup ## compare with other brokers, then measure qmgrd alone (35 minutes); ROWS=, PEERS=, SECONDS=, SCALE=
	@$(BIN)/python -m qmgr_bench \
	    $(if $(ROWS),--rows $(ROWS)) $(if $(PEERS),--peers $(PEERS)) \
	    $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SCALE),--scale $(SCALE))

figures: setup ## write the results of the last bench to docs/benchmarks.md, docs/img and the README
	@$(BIN)/python -m qmgr_bench --publish

sim: setup ## simulate SEEDS=n networks, beginning with seed START=n
	@$(BIN)/python -m tests.sim.run --seeds $(SEEDS) --start $(START)

crash: setup ## kill and check real daemons CYCLES=n times; LINK=1: linked ones; SHARED=1: members
	@$(BIN)/python -m tests.process.crash --cycles $(CYCLES) $(if $(LINK),--link) $(if $(SHARED),--shared)

hostile: setup ## attack the real daemon with hostile clients for MINUTES=n; SEED=, ONLY=kinds
	@$(BIN)/python -m tests.process.hostile --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) \
	    $(if $(ONLY),--only $(ONLY))

stream: setup ## kill a history stream, its executors and its daemon CYCLES=n times
	@$(BIN)/python -m tests.pyspark_qmgr.stream_kill --cycles $(CYCLES) $(if $(SEED),--seed $(SEED))

snapshots: setup ## take and verify a snapshot every second under full load for SECONDS=n; show the cost
	@$(BIN)/python -m tests.process.snapshots $(if $(SECONDS),--seconds $(SECONDS))

inject: setup ## run the real daemon and let one system call fail, for each call in turn; ARGS="--call fsync"
	@$(BIN)/python -m tests.process.inject $(ARGS)

cutoff: setup ## cut ext4 and XFS off under the daemon and check CYCLES=n times each (root, loop devices); SEED=
	@$(BIN)/python -m tests.process.cutoff --cycles $(CYCLES) $(if $(SEED),--seed $(SEED)) $(ARGS)

powercut: setup ## cut the power of a store in a simulation, and check STATES=n disks; SEED=, ARGS="--controls"
	@$(BIN)/python -m tests.process.powercut --states $(STATES) $(if $(SEED),--seed $(SEED)) $(ARGS)

fuzz: setup ## test the daemon with N=n damaged inputs
	@$(BIN)/python -m tests.fuzz --count $(N)

soak: setup ## run the simulator, and compare queues with a model, for MINUTES=n
	@$(BIN)/python -m tests.qmgrd.core.machine.run --minutes $(MINUTES) & machine=$$!; \
	$(BIN)/python -m tests.sim.run --minutes $(MINUTES); sim=$$?; \
	wait $$machine && exit $$sim

mutate: setup ## check that tests find changes in the code; MODULES="window put" selects modules
	@nice -n 10 $(BIN)/python -m tests.mutate $(MODULES)

lock: ## lock the requirements of pyproject.toml (needs uv); UPGRADE=1: use the newest versions
	@lock() { uv pip compile -q --generate-hashes --no-emit-index-url --python-version 3.11 \
	    --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) pyproject.toml "$$@"; }; \
	lock --all-extras -o requirements.lock && \
	lock -c requirements.lock -o requirements-runtime.lock

clean: ## remove .venv, build/ and all caches
	rm -rf .venv build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache \
	    spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
