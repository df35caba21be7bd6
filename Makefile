# make test: what is asked of every change, in the project's own environment (.venv). `.ci/run` has what CI runs besides.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python -m
# Processes of pytest; the tests of a file run in one of them. Tests wait about as long as they compute, so that four of
# them leave two cores idle for a quarter of the time, which tests that measure time need.
WORKERS ?= 4
# What Python compiles is kept for the next time, even where the environment says otherwise: each process of pytest
# collects all tests, which takes 11 s instead of 19 s if they are compiled.
export PYTHONDONTWRITEBYTECODE :=
# Tests that install, start whole systems, or measure processor time: one after the other, with nothing beside them.
SYSTEMS := tests/agents tests/bench tests/deploy tests/e2e tests/packages
STAMP := $(VENV)/.installed
# INSTALLATION...: the requirements that these installations take from packages/lock.txt.
LOCKED := packages/locked.sh
PIP := $(RUN) pip --quiet --disable-pip-version-check
UV := $(VENV)/bin/uv pip install --quiet --compile-bytecode
FETCH := $(PIP) download --no-deps --require-hashes --only-binary :all: --dest $(VENV)/wheels

.DEFAULT_GOAL := help
.PHONY: help setup quick coverage test system lint types unit wide systems slow explore golden node node-packages parity suggestions drains plans deschedule cases questions bench bench-aims bench-latency bench-start bench-short bench-plugin examples bench-extender reliability reliability-stalls simulate-faults defects mutants failover attack churn bench-store crash upgrade fuzz manifests headlamp lock wheels krew krew-manifest sbom picture clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "%-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## the environment in .venv, without root

# No root, no system packages, no real API server. FAST are the tests that need only Python and loopback, and QUICK those
# of them that start no server and wait for nothing.
FAST := tests/answers tests/contract tests/record tests/serving tests/cli tests/golden tests/local tests/scheduler
QUICK := tests/answers tests/contract tests/record tests/cli/render tests/cli/commands tests/local \
	tests/scheduler/backend tests/scheduler/config tests/scheduler/engine
quick: $(STAMP) lint types ## lint, types and the quickest tests, in three minutes
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) pytest -q -n $(WORKERS) --dist loadfile --hypothesis-profile quick -m "not slow" $(QUICK)

coverage: $(STAMP) ## branch coverage of the tests that run in one process
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) pytest -q -n $(WORKERS) --dist loadfile --hypothesis-profile quick \
		--cov --cov-branch --cov-report=term:skip-covered $(FAST) tests/endpoint tests/sim

test: system $(STAMP) lint types unit ## lint, types and the tests of every change, in the project's own environment (.venv)
# Debian's packages that some tests need, where root may install them; elsewhere those tests are skipped, and say so.
# No service is started by that (RUNLEVEL), or stays started (systemctl).
system: ## Debian packages that some tests need (as root; otherwise those tests are skipped)
	@if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  missing=; \
	  ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || missing="postgresql"; \
	  command -v chromium > /dev/null || missing="$$missing chromium fonts-dejavu-core"; \
	  { command -v patroni && command -v etcd; } > /dev/null || missing="$$missing patroni etcd-server"; \
	  for program in prometheus prometheus-node-exporter busybox; do \
	    command -v $$program > /dev/null || missing="$$missing $$program"; \
	  done; \
	  if [ -n "$$missing" ]; then \
	    echo "installing $$missing"; \
	    export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive; \
	    { timeout 120 apt-get update && timeout 480 apt-get install --yes --no-install-recommends $$missing; } > /dev/null 2>&1 \
	      || echo "NOT INSTALLED: $$missing; the tests that need it are skipped"; \
	    for service in postgresql prometheus prometheus-node-exporter patroni etcd; do \
	      case " $$missing " in *" $$service "* | *" $$service-server "*) \
	        [ ! -d /run/systemd/system ] || systemctl --quiet disable --now $$service || true;; \
	      esac; \
	    done; \
	  fi; \
	fi

# What packages/lock.txt names, and nothing else: as wheels for the tests of installing, and into the environment.
$(STAMP): packages/lock.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Herodotus needs Python 3.11 or later for its servers and tests")'
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@echo "installing what the tests need into $(VENV)"
	@$(LOCKED) servers build mcp top > $(VENV)/installed.txt
	@$(LOCKED) plugin | sed 's/ ;[^\\]*//' > $(VENV)/plugin.txt # for whatever Python
	@$(LOCKED) dev > $(VENV)/dev.txt
	@$(LOCKED) s3 > $(VENV)/s3.txt
	@sed -n '/^uv==/,/[^\\]$$/p' $(VENV)/dev.txt > $(VENV)/uv.txt
	@$(FETCH) -r $(VENV)/installed.txt
	@$(FETCH) -r $(VENV)/plugin.txt
	@$(PIP) install --require-hashes -r $(VENV)/uv.txt
	@$(UV) --python $(VENV)/bin/python --require-hashes --find-links $(VENV)/wheels -r $(VENV)/dev.txt
	@$(UV) --python $(VENV)/bin/python --no-deps --no-build-isolation --editable .
	@$(VENV)/bin/uv venv --quiet --clear --python $(VENV)/bin/python $(VENV)/s3
	@$(UV) --python $(VENV)/s3 --require-hashes -r $(VENV)/s3.txt
	@touch $@

lint: $(STAMP) ## ruff, imports, spelling and prose, shellcheck, hadolint, the workflows
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(VENV)/bin/lint-imports --no-cache --no-logo
	$(VENV)/bin/codespell
	$(VENV)/bin/proselint check *.md docs
	$(VENV)/bin/shellcheck --shell=sh install.sh packages/locked.sh packages/images/install.sh scripts/*.sh
	$(VENV)/bin/hadolint Dockerfile
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/bin/zizmor --offline --quiet --min-severity medium .github/workflows

types: $(STAMP) ## mypy, strict, over code and tests
	$(RUN) mypy --num-workers 2

# Compiled beforehand, as an installation is: the tests start hundreds of processes, the first ones at the same time.
unit: $(STAMP) ## the tests of every change: neither slow nor wide, and without whole systems
	@$(RUN) compileall -q herodotus_* scheduler
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) pytest -n $(WORKERS) --dist loadfile -m "not slow and not wide" $(SYSTEMS:%=--ignore=%)

wide: system $(STAMP) ## what `make test` leaves out: most cases of users, recordings and seeds, PostgreSQL, pages in a browser; six minutes
	@$(RUN) compileall -q herodotus_* scheduler
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) pytest -n $(WORKERS) --dist loadfile -m "wide and not slow" $(SYSTEMS:%=--ignore=%)

systems: system $(STAMP) ## the tests of whole systems, on a real API server where found; 17 minutes
	@$(RUN) compileall -q herodotus_* scheduler
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) pytest -m "not slow" $(SYSTEMS)

slow: $(STAMP) ## the tests that `make test` and `make systems` leave out, a quarter of an hour
	@$(RUN) compileall -q herodotus_* scheduler
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) pytest -n $(WORKERS) --dist loadfile -m slow

explore: $(STAMP) ## property tests with new random examples
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) pytest --hypothesis-profile explore -n $(WORKERS) --dist loadfile

# Images of this tree in containers on a real node: as root on Debian, with Kubernetes' programs by the envtest convention.
node: $(STAMP) node-packages ## the quick start on a real kubelet and containerd (HERODOTUS_INSTALLATIONS)
	@$(RUN) compileall -q herodotus_* scheduler
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" HERODOTUS_NODE=1 $(RUN) pytest tests/node -v -s -rs --timeout=3600

node-packages:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  missing=; \
	  for program in containerd runc buildah mmdebstrap iptables; do \
	    command -v $$program > /dev/null || missing="$$missing $$program"; \
	  done; \
	  [ -x /usr/lib/cni/bridge ] || missing="$$missing containernetworking-plugins"; \
	  if [ -n "$$missing" ]; then \
	    echo "installing $$missing"; \
	    export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive; \
	    { timeout 120 apt-get update && timeout 480 apt-get install --yes --no-install-recommends $$missing; } > /dev/null 2>&1 \
	      || echo "NOT INSTALLED: $$missing; the tests of a real node are skipped"; \
	    case " $$missing " in *" containerd "*) \
	      [ ! -d /run/systemd/system ] || systemctl --quiet disable --now containerd || true;; \
	    esac; \
	  fi; \
	fi

golden: $(STAMP) ## the recorded decisions of kube-scheduler
	$(RUN) pytest tests/golden -v

parity: $(STAMP) ## random clusters against a real kube-scheduler, ten minutes (PARITY_SEEDS, PARITY_PODS, PARITY_NODES, PARITY_EMULATED)
	PARITY_SEEDS="$${PARITY_SEEDS:-1-50}" PARITY_PODS="$${PARITY_PODS:-50}" $(RUN) pytest tests/e2e/test_parity.py -s

# The suggestions of `kubectl herodotus pod` for pending pods, carried out with their commands, and the first fix of each
# case in tests/cases.
suggestions: $(STAMP) ## every suggestion for 95 pending pods, and every first fix of a case, judged by a real kube-scheduler (SUGGESTION_NODES, SUGGESTION_PODS, SUGGESTION_WORKLOADS, FIRST_FIXES)
	SUGGESTION_NODES="$${SUGGESTION_NODES:-200}" SUGGESTION_PODS="$${SUGGESTION_PODS:-2000}" \
		SUGGESTION_WORKLOADS="$${SUGGESTION_WORKLOADS:-95}" FIRST_FIXES="$${FIRST_FIXES:-all}" \
		$(RUN) pytest tests/e2e/test_suggestions.py tests/e2e/test_first_fixes.py -s

drains: $(STAMP) ## 20 random clusters: what drain, capacity and add-nodes say, held against a real control plane
	DRAIN_SEEDS="$${DRAIN_SEEDS:-20}" $(RUN) pytest tests/e2e/test_drains.py -s

deschedule: $(STAMP) ## 200 random clusters and policies: what the descheduler would evict, held against a real run (DESCHEDULE_SEEDS)
	DESCHEDULE_SEEDS="$${DESCHEDULE_SEEDS:-200}" $(RUN) pytest tests/e2e/test_descheduler.py -s

plans: $(STAMP) ## 200 plans carried out on a real control plane, and 300 held against an exhaustive search (PLAN_CLUSTERS, PLAN_SEEDS)
	PLAN_SEEDS="$${PLAN_SEEDS:-300}" $(RUN) pytest tests/scheduler/engine/plans -s
	PLAN_CLUSTERS="$${PLAN_CLUSTERS:-200}" $(RUN) pytest tests/e2e/test_plans.py -s

# Local mode, a scheduler with a decisions service, and a real API server for quotas, node groups and Kueue.
cases: $(STAMP) ## problems of users: is the cause named, and does the first fix end them; a quarter of an hour
	$(RUN) pytest -n $(WORKERS) tests/cases tests/e2e/test_reasons_of_controllers.py tests/e2e/test_batch_queues.py \
		tests/e2e/test_node_groups.py

# Each question of docs/questions.md asked of a real cluster, and the answers held against a real kube-scheduler.
questions: $(STAMP) ## each question of docs/questions.md, against a real kube-scheduler
	QUESTIONS_NODES="$${QUESTIONS_NODES:-200}" QUESTIONS_ASKED="$${QUESTIONS_ASKED:-60}" \
		$(RUN) pytest tests/e2e/test_questions.py -s

# The table of docs/performance.md: the algorithm alone, then kube-scheduler and Herodotus in turn. Hours; BENCH narrows.
bench: $(STAMP) ## the table of docs/performance.md; hours (BENCH narrows)
	$(RUN) bench algorithm --pods 200 --rounds 5 $(BENCH)
	$(RUN) bench control-plane --rounds 6 $(BENCH)

bench-aims: $(STAMP) ## the targets against kube-scheduler; an hour
	$(RUN) bench control-plane --aims --pods 2000 --rounds 3 --contenders delivering no-record
	$(RUN) bench control-plane --rounds 2 --contenders delivering ColdStart

# For each family: ten seconds for the rate that kube-scheduler sustains, then a run of each scheduler. BENCH narrows.
bench-latency: $(STAMP) ## creation to binding at equal load, kube-scheduler and Herodotus; half an hour (BENCH narrows)
	$(RUN) bench latency $(BENCH)

bench-start: $(STAMP) ## time to the first binding, and failover gaps, kube-scheduler and Herodotus (BENCH narrows)
	$(RUN) bench start $(BENCH)

examples: $(STAMP) ## refresh the example changes of tests/contract/examples
	$(RUN) scripts.examples

bench-short: $(STAMP) ## cycle rates of the algorithm alone, a minute
	$(RUN) bench algorithm --short

bench-extender: $(STAMP) ## the extender service: rates and memory
	$(RUN) bench extender

reliability: $(STAMP) ## random operations, faults and kills, then invariants
	$(RUN) bench.reliability --operations 10000
	$(RUN) bench.reliability --operations 4000 --server real --lease-s 6 --disturb-every-s 6

simulate-faults: $(STAMP) ## many seeds of faults on virtual time, ten minutes of processor time (SIMULATE narrows: --replay SEED --shrink)
	$(RUN) bench.simulation --seeds 10000 --minutes 10 --shrink $(SIMULATE)

defects: $(STAMP) ## known defects put back into a copy, and searched by simulation (DEFECTS narrows)
	$(RUN) bench.defects $(DEFECTS)

mutants: $(STAMP) ## changes of single places in the code that no test notices, of a sample; hours (MUTANTS narrows: --part store --count 40 --seed 43)
	$(RUN) bench.mutants $(MUTANTS)

attack: $(STAMP) ## slow and silent clients on every port, beside normal load (ATTACK narrows)
	$(RUN) bench.attack $(ATTACK)

churn: $(STAMP) ## a day's churn in minutes: memory
	$(RUN) bench.churn

bench-plugin: $(STAMP) ## kubectl herodotus pod against kubectl get pod
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) bench.plugin

bench-store: $(STAMP) ## the store: size, ingest rate, processor time
	$(RUN) bench.store --postgresql

crash: $(STAMP) ## the decisions service killed 50 times under load, on each database
	HERODOTUS_CRASHES=$${HERODOTUS_CRASHES:-50} $(RUN) pytest tests/endpoint/store/test_crash.py -v

upgrade: $(STAMP) ## upgrade and rollback under load, in every order; half an hour
	HERODOTUS_UPGRADES=$${HERODOTUS_UPGRADES:-3} $(RUN) pytest tests/e2e/test_upgrade.py -v -s

reliability-stalls: $(STAMP) ## stalled etcd and lost Leases while pods are bound
	$(RUN) bench.reliability --rounds 50 --server real --lease-s 6
	$(RUN) bench.reliability --rounds 50 --server real --lease-s 15

failover: system $(STAMP) ## PostgreSQL's primary killed 20 times and cut off 5 times under load (as root; FAILOVER narrows)
	$(RUN) bench.failover $(FAILOVER)

fuzz: $(STAMP) ## random requests, frames, ingest and CEL expressions for some minutes
	OPENAPI_EXAMPLES=$${OPENAPI_EXAMPLES:-200} HERODOTUS_FUZZ_EXAMPLES=$${HERODOTUS_FUZZ_EXAMPLES:-20000} \
		$(RUN) pytest tests/endpoint/test_openapi.py tests/endpoint/api/test_fuzz.py tests/endpoint/api/test_ingest_over_http.py \
		tests/scheduler/engine/cel/test_fuzz.py -s --timeout=7200

headlamp: $(STAMP) ## the Headlamp plugin: lint, types, tests, bundle; needs Node.js and npm
	$(RUN) scripts.headlamp_types
	cd plugins/headlamp && npm ci --no-audit --no-fund && npm run lint && npm run tsc && CI=true npm test && npm run build

manifests: $(STAMP) ## the plain manifests in deploy/, from the chart
	$(RUN) scripts.manifests

lock: $(STAMP) wheels ## packages/lock.txt, after a change of dependencies (UPGRADE=--upgrade: newer versions of indirect ones, too)
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) scripts.lock $(UPGRADE)

wheels: $(STAMP) ## both wheels, into dist
	rm -f dist/*.whl
	$(RUN) hatchling build --target wheel --directory dist
	cd packages/servers && "$(CURDIR)/$(VENV)/bin/python" -m hatchling build --target wheel --directory "$(CURDIR)/dist"

# For this machine's platform, with the Python of the environment: it runs where glibc is as new as here, or newer.
krew: $(STAMP) ## krew's archive and manifest, and Homebrew's formula, into dist
	SOURCE_DATE_EPOCH=1577836800 PYTHONHASHSEED=1 $(RUN) PyInstaller --noconfirm --log-level WARN \
		--distpath $(VENV)/krew --workpath $(VENV)/krew-work packages/krew/herodotus.spec
	$(VENV)/bin/python packages/krew/build.py dist $(VENV)/krew/herodotus

krew-manifest: $(STAMP) ## krew's manifest and Homebrew's formula for the archives that are in dist
	$(VENV)/bin/python packages/krew/build.py dist

picture: $(STAMP) ## the README's picture
	$(RUN) deploy.demo.picture draw

sbom: wheels ## bills of materials, into dist
	for part in plugin servers; do \
	  $(VENV)/bin/uv venv --quiet --clear --python $(VENV)/bin/python $(VENV)/$$part && \
	  set -- --quiet --python $(VENV)/$$part --no-index --find-links $(VENV)/wheels --find-links dist && \
	  $(LOCKED) $$part > $(VENV)/$$part-locked.txt && \
	  $(VENV)/bin/uv pip install "$$@" --require-hashes -r $(VENV)/$$part-locked.txt && \
	  $(VENV)/bin/uv pip install "$$@" --no-deps kubectl-herodotus $$([ $$part = plugin ] || echo kubectl-herodotus-servers) && \
	  $(VENV)/bin/cyclonedx-py environment --output-reproducible -o dist/herodotus-$$part.cdx.json $(VENV)/$$part || exit; \
	done

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) dist plugins/headlamp/dist plugins/headlamp/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis
