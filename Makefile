# Every target does its own set-up; a step is skipped while its inputs have not changed.
PYTHON ?= python3
BIN := .venv/bin
MEMBERS := $(sort $(patsubst %/pyproject.toml,%,$(wildcard libs/*/pyproject.toml services/*/pyproject.toml)))
SOURCES := $(subst $() ,:,$(addsuffix /src,$(MEMBERS)))
INSTALL := $(BIN)/python -m datarecs_cli.stack.installing
PYTEST := $(BIN)/pytest -q
BENCH := $(BIN)/python -m tests.bench
FIGURES := --write docs/benchmarks.md
SCALE := 1
# Several at once: a test of a server waits more than it works.
BY_TEST := -n 2 --dist worksteal
BY_FILE := -n 3 --dist loadfile --no-loadscope-reorder
# Files that name a mark, the long ones of tests/ first, so that none is left over at the end. To
# look for tests in all the others costs every process some 20 s.
naming = $(sort $(shell grep -rlE 'mark\.$(1)\b' --include='test_*.py' $(2)))
marked = $(call naming,$(1),tests) $(call naming,$(1),libs services)
export MYPYPATH := $(SOURCES)
# Compiled modules are stored: else every process that a test starts compiles all it imports, 1 to 2 s.
unexport PYTHONDONTWRITEBYTECODE
# What one core does alone (types, contracts) goes beside what two do.
MAKEFLAGS += -j2
T ?= libs services tests/architecture tests/contract tests/docs
K ?=
SHAPES ?= 200
RUNS ?= 1000
MINUTES ?= 15
SEED ?= 1
KEEP ?=
ONLY ?=
ENGINE ?= docker
BASE ?=
CURRENT = $(shell sed -n 's/^version = "\([^"]*\)".*/\1/p' pyproject.toml)
ALONE := "not integration and not spark and not e2e and not browser and not kubeapi"

.PHONY: help setup demo up down check fmt lint types contracts schemas docs site cases unit printed alone test differential crash kubeapi soak bench tpch mutants lock lock-jars lock-images dist images compose-secrets containers release workflows

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort

.venv/.uv: requirements-setup.lock
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "datarecs needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another with: make PYTHON=/path/to/python3.11 setup")'
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-setup.lock
	@touch $@

.venv/.locked: .venv/.uv requirements.lock
	@echo "installing the locked dependencies (the first time: about 700 MB to download, 2 GB on disk, a few minutes)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	@touch $@

.venv/.editable: .venv/.locked pyproject.toml
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

.venv/.java: .venv/.editable requirements-java.lock
	@$(INSTALL) java 2>/dev/null || { echo "no Java 17 to 23 found: installing one into .venv"; $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements-java.lock; $(INSTALL) java; }
	@touch $@

.venv/.jars: .venv/.java libs/cli/src/datarecs_cli/stack/jars.lock.toml
	@$(INSTALL) jars
	@if $(INSTALL) classes; then touch $@; fi

setup: .venv/.jars ## Python packages, Java, Kafka's jars

demo: setup ## a MATCHED and an UNMATCHED run on real parts
	@$(BIN)/datarecs demo

up: setup ## start the platform on this machine
	@$(BIN)/datarecs up

down: setup ## stop it
	@$(BIN)/datarecs down

fmt: setup ## format the code
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: setup ## ruff, and deptry in every member
	@$(BIN)/ruff format --check . && $(BIN)/ruff check .
	@found=0; for member in $(MEMBERS); do package=$$(basename $$member/src/*); told=$$(cd $$member && ../../$(BIN)/deptry src --known-first-party $$package 2>&1) || { echo "$$member: $$told"; found=1; }; done; exit $$found

# conftest.py apart: below services/core-api, which no module name can spell, there is another.
types: setup ## mypy --strict
	@$(BIN)/mypy libs services tests docs && $(BIN)/mypy conftest.py

contracts: setup ## who may import whom
	@$(BIN)/lint-imports

schemas: setup ## rewrite events-schema/
	@$(BIN)/python -m datarecs_events.schemas --write

docs: setup ## rewrite the generated pages of docs/ and parts of the chart
	@$(BIN)/python docs/generate.py --write && $(BIN)/python docs/chart.py --write && $(BIN)/python docs/notebook.py --write

site: setup ## the documentation as a site, in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet && echo build/site/index.html

cases: setup ## acceptance ids without a test; make cases RELEASE=1 fails while there is one
	@$(BIN)/python tests/cases.py $(if $(RELEASE),--release)

unit: setup ## one corner, fast: make unit T=libs/core K=cancel
	@$(PYTEST) $(T) -m $(ALONE) $(if $(K),-k "$(K)")

check: lint types contracts printed alone ## everything that needs no server

printed: setup
	@$(BIN)/python -m datarecs_events.schemas --check && $(BIN)/python docs/generate.py --check && $(BIN)/python docs/chart.py --check && $(BIN)/python docs/notebook.py --check

alone: setup
	@$(PYTEST) $(BY_TEST) -m $(ALONE)

test: check ## all of it: check, then real Postgres, Kafka and Spark
	@$(PYTEST) $(BY_FILE) -m "integration and not e2e and not spark" $(call marked,integration)
	@$(PYTEST) $(BY_TEST) -m "spark and not e2e" $(call marked,spark)
	@$(PYTEST) $(BY_FILE) -m "browser or e2e" $(call marked,browser) $(call marked,e2e)

differential: setup ## ask engine and oracle the same questions: make differential SHAPES=200
	@DATARECS_TEST_SHAPES=$(SHAPES) $(PYTEST) $(BY_TEST) $(addprefix tests/differential/test_,engines_agree.py kernel_alone_agrees.py ways_agree.py) libs/testing/tests/test_row_matrix.py

crash: setup ## kill at every named place, twice, then random kills over a capture of 2,000 groups; the ledgers
	@DATARECS_TEST_CRASH=all $(PYTEST) tests/crash libs/application/tests/sinking/test_sink_simulation.py libs/cli/tests/test_sink_proof.py
	@$(BIN)/python -m tests.crash.captures --seed $(SEED)

kubeapi: setup ## the chart, and runs as workflows, against a real Kubernetes API server and Argo; builds both once, with Go
	@$(PYTEST) -s -m kubeapi tests/kubeapi

soak: setup ## random kills of runs and of a sink, then the ledgers: make soak RUNS=1000 MINUTES=15 SEED=1 KEEP=1
	@$(BIN)/python tests/soak/run.py --runs $(RUNS) --minutes $(MINUTES) --seed $(SEED) $(if $(KEEP),--write)
	@$(BIN)/python -m tests.crash.sinks --seed $(SEED)

bench: setup ## figures, with machine and load
	@$(BIN)/python tests/bench/run.py
	@$(BENCH).hanging
	@$(BENCH).compare $(FIGURES) --rows 1000000 --peers polars
	@$(BENCH).compare $(FIGURES) --rows 10000000 --peers polars --goal 1
	@$(BENCH).compare $(FIGURES) --rows 10000000 --differ 0 --goal 0.75
	@$(BENCH).compare $(FIGURES) --rows 10000000 --differ 0.05 --goal 1.3
	@$(BENCH).compare $(FIGURES) --rows 1000000 --differ 1 --goal 2
	@$(BENCH).compare $(FIGURES) --rows 10000000 --differ 1 --goal 2
	@$(BENCH).compare $(FIGURES) --rows 30000000 --memory 2 --goal 0.8 --peak-goal 2
	@$(BENCH).growth $(FIGURES)
	@$(BENCH).compare $(FIGURES) --rows 30000000 --memory 2 --differ 1 --peak-goal 2 --runs 1
	@$(BENCH).compare $(FIGURES) --rows 1000000 --sources 3 --goal 1
	@$(BENCH).compare $(FIGURES) --rows 1000000 --sources 10 --goal 1
	@$(BENCH).compare $(FIGURES) --rows 1000000 --duplicates 0.1 --goal 2
	@$(BENCH).aggregate $(FIGURES) --rows 10000000 --goal 1.5
	@$(BENCH).compare $(FIGURES) --plain --rows 1000000 --peers polars datacompy-polars datacompy-spark
	@$(BENCH).compare $(FIGURES) --plain --rows 10000000 --peers polars
	@$(BENCH).compare $(FIGURES) --plain --rows 10000000 --differ 0
	@$(BENCH).compare $(FIGURES) --plain --rows 10000000 --differ 0.05
	@$(BENCH).compare $(FIGURES) --plain --rows 30000000
	@$(BENCH).compare $(FIGURES) --plain --rows 10000000 --sources 3
	@$(BENCH).cluster $(FIGURES) --rows 10000000 --goal 1.6
	@$(BENCH).lake $(FIGURES) --rows 10000000 --goal 2
	@$(BENCH).extraction $(FIGURES) --rows 1000000 --goal 1.5
	@$(BENCH).commands $(FIGURES)
	@$(BIN)/python tests/bench/queues.py --write docs/benchmarks-events.md
	@$(BIN)/python tests/bench/events.py --write docs/benchmarks-events.md
	@$(BIN)/python tests/bench/feed.py --write docs/benchmarks-events.md
	@$(BIN)/python tests/bench/steady.py --write docs/benchmarks-events.md
	@$(BENCH).resources --write docs/benchmarks-resources.md
	@$(BENCH).matrix $(FIGURES)

tpch: setup ## what later captures of the TPC-H tables open; installs their generator
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --group bench
	@$(BENCH).tpch --scale $(SCALE) --write docs/benchmarks-captures.md

mutants: setup ## change what decides a verdict, one place at a time: make mutants ONLY="tolerance verdict"
	@nice -n 19 $(BIN)/python -m tests.mutation.run $(ONLY)

lock: .venv/.uv ## resolve again; names, versions and hashes, no host
	@$(BIN)/uv lock --quiet $(LOCKFLAGS) && $(BIN)/uv export --quiet --frozen --all-packages --no-emit-workspace --no-header --no-annotate --group dev -o requirements.lock

dist: .venv/.uv ## wheel and source distribution of datarecs, in dist/
	@$(BIN)/uv build --quiet --python $(BIN)/python --no-build-isolation --out-dir dist . && ls dist

release: setup ## set the version and assemble CHANGELOG.md: make release VERSION=0.2.0
	@$(BIN)/python tests/release.py "$(VERSION)"

.venv/bin/actionlint:
	@GOBIN=$(CURDIR)/$(BIN) go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

workflows: setup .venv/bin/actionlint ## check the workflows of the repository
	@$(BIN)/actionlint && $(BIN)/zizmor --quiet --offline --persona regular .github

lock-jars: setup ## resolve Kafka's jars again: coordinates and hashes
	@$(BIN)/python -m datarecs_cli.stack.lock_jars

lock-images: setup ## list again which locked packages the images install
	@$(BIN)/python -m tests.image_packages --write

images: dist ## container images datarecs:local and datarecs-spark:local; ENGINE=podman, BASE=image
	@for image in datarecs datarecs-spark; do $(ENGINE) build --file services/Dockerfile --target $$image --tag $$image:local $(if $(BASE),--build-arg BASE=$(BASE)) --build-arg VERSION=$(CURRENT) --build-arg REVISION=$$(git rev-parse HEAD) $(IMAGEFLAGS) . || exit 1; done

compose-secrets: ## passwords, keys and certificates for docker-compose.yml, in .secrets/
	@deploy/compose/secrets.sh

containers: setup dist ## build both images with Podman, and run docker-compose.yml on stand-ins
	@$(PYTEST) tests/containers/check_images.py tests/containers/check_compose.py
