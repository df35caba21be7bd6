# make test: everything that CI runs, in the project's own environment (.venv).
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python -m
# Of pytest: one for whole systems, one for everything else (tests/conftest.py).
WORKERS ?= 2
STAMP := $(VENV)/.installed
LOCKS := packages/locks
PIP := $(RUN) pip --quiet --disable-pip-version-check
FETCH := $(PIP) download --no-deps --require-hashes --only-binary :all: --dest $(VENV)/wheels

.PHONY: test system lint types unit explore e2e golden parity questions bench bench-aims bench-short bench-plugin bench-extender reliability reliability-stalls attack churn bench-store crash upgrade fuzz manifests lock wheels krew sbom picture clean

test: system $(STAMP) lint types unit

# Debian's packages that some tests need, where root may install them; elsewhere those tests are skipped, and say so.
# No service is started by that (RUNLEVEL), or stays started (systemctl).
system:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  missing=; \
	  ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || missing="postgresql"; \
	  command -v chromium > /dev/null || missing="$$missing chromium fonts-dejavu-core"; \
	  for program in prometheus prometheus-node-exporter busybox; do \
	    command -v $$program > /dev/null || missing="$$missing $$program"; \
	  done; \
	  if [ -n "$$missing" ]; then \
	    echo "installing $$missing"; \
	    export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive; \
	    { timeout 120 apt-get update && timeout 480 apt-get install --yes --no-install-recommends $$missing; } > /dev/null 2>&1 \
	      || echo "NOT INSTALLED: $$missing; the tests that need it are skipped"; \
	    for service in postgresql prometheus prometheus-node-exporter; do case " $$missing " in *" $$service "*) \
	      [ ! -d /run/systemd/system ] || systemctl --quiet disable --now $$service || true;; \
	    esac; done; \
	  fi; \
	fi

# What packages/locks names, and nothing else: as wheels for the tests of installing, and into the environment.
$(STAMP): $(LOCKS)/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Herodotus needs Python 3.11 or later for its servers and tests")'
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@echo "installing what the tests need into $(VENV)"
	@$(FETCH) -r $(LOCKS)/servers.txt
	@$(FETCH) -r $(LOCKS)/build.txt
	@sed 's/ ;[^\\]*//' $(LOCKS)/plugin.txt > $(VENV)/plugin.txt # for whatever Python: krew's archive has it
	@$(FETCH) -r $(VENV)/plugin.txt
	@$(PIP) install --require-hashes --find-links $(VENV)/wheels -r $(LOCKS)/dev.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

lint: $(STAMP)
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(VENV)/bin/codespell
	$(VENV)/bin/shellcheck --shell=sh install.sh scripts/*.sh
	$(VENV)/bin/hadolint Dockerfile
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/bin/zizmor --offline --quiet --min-severity medium .github/workflows

types: $(STAMP)
	$(RUN) mypy

# Compiled beforehand, as an installation is: the tests start hundreds of processes, and some environments keep Python
# from writing what it has compiled.
unit: $(STAMP)
	@$(RUN) compileall -q herodotus_* scheduler
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) pytest -n $(WORKERS)

# Property tests with other examples than the ones that every run tries; a failure prints how to see it again.
explore: $(STAMP)
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) pytest --hypothesis-profile explore -n $(WORKERS)

# Only the end-to-end suite: on the simulated API server, and on a real one where its binaries are found.
e2e: $(STAMP)
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) pytest tests/e2e -v

# Only the recorded decisions of kube-scheduler.
golden: $(STAMP)
	$(RUN) pytest tests/golden -v

# Random clusters against a real kube-scheduler, ten minutes of them: PARITY_SEEDS, PARITY_PODS, PARITY_NODES.
parity: $(STAMP)
	PARITY_SEEDS="$${PARITY_SEEDS:-1-50}" PARITY_PODS="$${PARITY_PODS:-50}" $(RUN) pytest tests/e2e/test_parity.py -s

# Each question of docs/questions.md asked of a real cluster, and the answers held against a real kube-scheduler.
questions: $(STAMP)
	QUESTIONS_NODES="$${QUESTIONS_NODES:-200}" QUESTIONS_ASKED="$${QUESTIONS_ASKED:-60}" \
		$(RUN) pytest tests/e2e/test_questions.py -s

# The table of docs/performance.md: the algorithm alone, then kube-scheduler and Herodotus in turn. Hours; BENCH narrows.
bench: $(STAMP)
	$(RUN) bench algorithm --pods 200 --rounds 5 $(BENCH)
	$(RUN) bench control-plane --rounds 6 $(BENCH)

# What is to be reached against kube-scheduler, and what of it is: seven families on 5,000 nodes and the cold start; an hour.
bench-aims: $(STAMP)
	$(RUN) bench control-plane --aims --pods 2000 --rounds 3 --contenders delivering no-record
	$(RUN) bench control-plane --rounds 2 --contenders delivering ColdStart

# Cycle rates of the algorithm alone, small clusters, in a minute; shows early when a change is a wrong turn.
bench-short: $(STAMP)
	$(RUN) bench algorithm --short

# The extender service: each agent, 500 nodes a call, by names and as whole nodes; memory over rounds of calls.
bench-extender: $(STAMP)
	$(RUN) bench extender

# Operations, faults and killed processes at random, then invariants; docs/reliability.md has the last result.
reliability: $(STAMP)
	$(RUN) bench.reliability --operations 10000
	$(RUN) bench.reliability --operations 4000 --server real --lease-s 6 --disturb-every-s 6

# Slow, silent and never-reading clients on every port, beside ingest, queries and probes; ATTACK narrows.
attack: $(STAMP)
	$(RUN) bench.attack $(ATTACK)

# A day's churn in minutes: is memory flat?
churn: $(STAMP)
	$(RUN) bench.churn

# `kubectl herodotus pod` and `kubectl get pod` in turn, on a record of 5,000 nodes.
bench-plugin: $(STAMP)
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) bench.plugin

# The store: size at rest, ingest, CPU of real decisions on 5,000 nodes; on SQLite and on a PostgreSQL of its own.
bench-store: $(STAMP)
	$(RUN) bench.store --postgresql

# The decisions service killed 50 times under load, on SQLite and on PostgreSQL.
crash: $(STAMP)
	HERODOTUS_CRASHES=$${HERODOTUS_CRASHES:-50} $(RUN) pytest tests/endpoint/test_store_crash.py -v

# Scheduler and service of this version and of earlier ones, up and back in every order, under load; half an hour.
upgrade: $(STAMP)
	HERODOTUS_UPGRADES=$${HERODOTUS_UPGRADES:-3} $(RUN) pytest tests/e2e/test_upgrade.py -v -s

# Stalled storage, lost Leases, frozen and killed leaders while pods are bound: what the record says is true afterwards.
reliability-stalls: $(STAMP)
	$(RUN) bench.reliability --rounds 50 --server real --lease-s 6
	$(RUN) bench.reliability --rounds 50 --server real --lease-s 15

# Made-up requests for some minutes: what the document allows, frames, and ingest over HTTP. docs/reliability.md: the last one.
fuzz: $(STAMP)
	OPENAPI_EXAMPLES=$${OPENAPI_EXAMPLES:-200} HERODOTUS_FUZZ_EXAMPLES=$${HERODOTUS_FUZZ_EXAMPLES:-20000} \
		$(RUN) pytest tests/endpoint/test_openapi.py tests/endpoint/test_fuzz.py tests/endpoint/test_ingest_over_http.py -s --timeout=7200

# The plain manifests in deploy/, from the chart.
manifests: $(STAMP)
	$(RUN) scripts.manifests

# Again after a change of dependencies in one of the two pyproject files. UPGRADE=--upgrade also takes newer versions of
# what they leave open. No line of a lock names where a package comes from: that is the installer's setting.
COMPILE = $(VENV)/bin/uv pip compile --quiet $(UPGRADE) --universal --generate-hashes --no-header \
	--no-emit-package herodotus --find-links dist
lock: $(STAMP) wheels
	$(COMPILE) --python-version 3.11 pyproject.toml packages/servers/pyproject.toml --all-extras --group dev -o $(LOCKS)/dev.txt
	$(COMPILE) -c $(LOCKS)/dev.txt --python-version 3.11 pyproject.toml packages/servers/pyproject.toml -o $(LOCKS)/servers.txt
	$(COMPILE) -c $(LOCKS)/dev.txt --python-version 3.10 pyproject.toml -o $(LOCKS)/plugin.txt
	$(COMPILE) -c $(LOCKS)/dev.txt --python-version 3.10 --group build -o $(LOCKS)/build.txt
	$(COMPILE) -c $(LOCKS)/dev.txt --python-version 3.10 --group kubectl -o $(LOCKS)/kubectl.txt

# Both, into dist.
wheels: $(STAMP)
	rm -f dist/*.whl
	$(RUN) hatchling build --target wheel --directory dist
	cd packages/servers && "$(CURDIR)/$(VENV)/bin/python" -m hatchling build --target wheel --directory "$(CURDIR)/dist"

# krew's archive and manifest, into dist. What is in it was fetched by its hash, and is held against that again.
krew: wheels
	rm -rf $(VENV)/krew
	$(FETCH:wheels=krew) --no-index --find-links $(VENV)/wheels -r $(VENV)/plugin.txt
	cp dist/herodotus-*.whl $(VENV)/krew
	$(VENV)/bin/python packages/krew/build.py dist $(VENV)/krew/*.whl

# The README's picture, of the answers in docs/picture.json (recorded in a demo: python -m deploy.demo.picture record URL).
picture: $(STAMP)
	$(RUN) deploy.demo.picture draw

# Bills of materials (CycloneDX), into dist: of the images' environment, and of the plugin's.
sbom: wheels
	for part in plugin servers; do \
	  $(VENV)/bin/uv venv --quiet --clear --python $(VENV)/bin/python $(VENV)/$$part && \
	  set -- --quiet --python $(VENV)/$$part --no-index --find-links $(VENV)/wheels --find-links dist && \
	  $(VENV)/bin/uv pip install "$$@" --require-hashes -r $(LOCKS)/$$part.txt && \
	  $(VENV)/bin/uv pip install "$$@" --no-deps herodotus $$([ $$part = plugin ] || echo herodotus-servers) && \
	  $(VENV)/bin/cyclonedx-py environment --output-reproducible -o dist/herodotus-$$part.cdx.json $(VENV)/$$part || exit; \
	done

clean:
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
