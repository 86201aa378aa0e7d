# A newcomer needs make run and make test. The other targets are for contributors.
#
#   make run ARGS="--sample 1000 --port 8080"    with options of `migration-service up`
#   make PYTHON=/path/to/python3 run             with another Python (3.11 or newer)

VENV := .venv
BIN  := $(VENV)/bin
UV   ?= uv

# The first Python that is new enough. `python3` may be an old one, or a shim without a version.
CANDIDATES := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3)
override PYTHON := $(shell for python in $(CANDIDATES); do \
    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
    then echo $$python; break; fi; done)
ifeq ($(PYTHON),)
$(error No Python 3.11 or newer was found among: $(CANDIDATES). Name one: make PYTHON=/path/to/python3)
endif

.PHONY: run test coverage night bench chaos bench-tools bench-lock site-lock supply-lock sbom audit client drill proof upgrade-drill exchange-drill failover-drill failover-lock compose-check install-check kubernetes-containers docs-check prometheus-check describe-check clients fuzz check format lock docs site clean environment environment-dev
.DEFAULT_GOAL := run

# If this is set, as in many containers, each of the many processes compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

run: environment
	$(BIN)/migration-service up $(ARGS)

# Five processes on two processors, because the tests of the running service mostly wait. The checks run at the
# same time. To run only some tests, or all in the order of a run that failed:
#   make test ARGS="-n 0 tests/unit/test_internals.py"    make test ARGS=--randomly-seed=1234
# Short forms of drills and programmes are left to the checks of a change (.ci/run): make test ARGS="-m ''" runs them, too.
test: environment-dev
	@$(MAKE) --no-print-directory check > .make/check.log 2>&1 & checks=$$!; \
	$(BIN)/pytest -n 5 --dist loadgroup -m "not long" $(ARGS); tests=$$?; \
	wait $$checks || { cat .make/check.log; exit 1; }; \
	exit $$tests

# Runs all tests, and fails if they cover less than `fail_under` in setup.cfg. It needs about half as much processor time
# again as the tests alone. build/coverage has every line and branch that no test runs.
coverage: environment-dev
	rm -rf .make/coverage build/coverage
	mkdir -p .make/coverage
	$(BIN)/pytest -n 5 --dist loadgroup --cov --cov-report=html:build/coverage $(ARGS)

# Everything that takes hours: other seeds, random orders, injected bugs, known mistakes (docs/contributors/tests.md):
#   make night ARGS="--only drill --seed 7"
night: environment-dev
	$(BIN)/python tools/night.py $(ARGS)

# Causes random faults in the running service under load, then checks the accounts: make drill ARGS="--rounds 20 --seed 7"
# Runs it on services with a known bug each, all of which it has to find: make drill ARGS=--inject
drill: environment-dev
	PYTHONPATH=tests $(BIN)/python -m drill $(ARGS)

# Reconciles a book in three ways while everything is killed. It needs haproxy: make proof ARGS="--accounts 400000"
proof: environment-dev
	PYTHONPATH=tests $(BIN)/python -m drill.proof $(ARGS)

# Replaces the last version by this one under load, host by host: make upgrade-drill ARGS="--from v0.2.0". It needs nginx
# and HAProxy.
upgrade-drill: environment-dev
	PYTHONPATH=tests $(BIN)/python -m drill.upgrade $(ARGS)

# Exchanges each secret under load, as docs/operators/secrets.md says: make exchange-drill ARGS="--only redis". It needs the
# same.
exchange-drill: environment-dev
	PYTHONPATH=tests $(BIN)/python -m drill.exchange $(ARGS)

# Lets servers, hosts and networks fail under a service on several hosts. It needs root, Linux, and Debian's etcd-server,
# haproxy, ethtool and libfaketime. What docs/contributors/reliability.md publishes:
#   make failover-drill ARGS="--rounds 10 --goals"
failover-drill: environment-dev build/failover-venv/installed
	PYTHONPATH=tests $(BIN)/python -m failover --patroni build/failover-venv/bin/python $(ARGS)

# With the system's Python: Patroni runs as `nobody`, who may not enter the folder of another one.
build/failover-venv/installed: tests/failover/requirements.lock
	/usr/bin/python3 -m venv --without-pip build/failover-venv
	$(BIN)/pip --python build/failover-venv/bin/python install --quiet --require-hashes --requirement tests/failover/requirements.lock
	touch $@

failover-lock:
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-annotate --no-header \
	    tests/failover/requirements.in -o tests/failover/requirements.lock

# What docs/performance.md and docs/contributors/reliability.md publish: the speed beside the usual alternatives, what
# a hostile organisation costs another one, and the public chaos of queues, which takes an hour:
#   make bench ARGS=--quick    make bench ARGS="--compare main"    make bench ARGS="neighbours --seconds 20"
#   make chaos ARGS="--part 6"
bench: bench-tools environment-dev benchmarks/.venv/installed
	PYTHONPATH=tests $(BIN)/python -m benchmarks $(ARGS)

# What is missing on the machine, before anything is built.
bench-tools:
	@command -v wrk > /dev/null || { echo "The load generator wrk is missing: \`apt install wrk\` (Debian, Ubuntu), \`brew install wrk\`." >&2; exit 1; }

chaos: environment-dev
	PYTHONPATH=tests $(BIN)/python -m benchmarks chaos $(ARGS)

benchmarks/.venv/installed: benchmarks/requirements.lock
	$(PYTHON) -m venv benchmarks/.venv
	benchmarks/.venv/bin/pip install --quiet --require-hashes --requirement benchmarks/requirements.lock
	touch $@

bench-lock:
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-annotate --no-header \
	    benchmarks/requirements.in -o benchmarks/requirements.lock

site-lock:
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-annotate --no-header \
	    tools/site/requirements.in -o tools/site/requirements.lock

check: environment-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/kubernetes_check.py

# Builds the client as one file for suppliers, who need no folder of the project, to build/client.
client: environment
	rm -rf build/client
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/client ./clients/python
	@ls build/client/*.whl

# Runs the containers of docker-compose.yml, and what the pages of operators do with them. It needs a container engine and
# docker-compose. Without a registry of images: make compose-check ARGS=--debian
compose-check: environment-dev
	PYTHONPATH=tests:clients/python/src $(BIN)/python tools/compose_check.py $(ARGS)

# Installs the service on a Debian with systemd by the pages, block by block. It needs root, and Debian's debootstrap and
# systemd-container.
install-check: environment
	PYTHONPATH=tests $(BIN)/python tools/install_check.py $(ARGS)

# Runs the containers of deployment/kubernetes with their commands, users, probes and ends. It needs the same.
kubernetes-containers: environment-dev
	PYTHONPATH=tests:clients/python/src $(BIN)/python tools/kubernetes_containers.py $(ARGS)

# Every shell block of docs/ that a machine with nothing installed can run: minutes.
docs-check: environment-dev
	MIGRATION_SERVICE_DOCS=all $(BIN)/pytest -n 0 tests/documentation tests/e2e/test_docs.py

# Tries each alert on the series of its fault and of a healthy batch, and reads the queries of the dashboard. It needs
# promtool, from Debian's package prometheus.
prometheus-check: environment
	promtool check config --syntax-only monitoring/prometheus.yml
	promtool test rules monitoring/alerts_test.yml
	$(BIN)/python tools/dashboard_queries.py > .make/dashboard.json
	promtool check rules .make/dashboard.json

# Checks the interface description with two linters and their recommended rules. It needs node.
describe-check: environment
	mkdir -p .make/description
	cp tools/description/package.json .make/description/
	npm install --prefix .make/description --no-audit --no-fund --silent
	$(BIN)/python tools/description/write.py .make/description/openapi.json
	.make/description/node_modules/.bin/spectral lint --fail-severity warn \
	    --ruleset tools/description/spectral.yaml .make/description/openapi.json
	.make/description/node_modules/.bin/redocly lint --max-problems 1000 \
	    --config tools/description/redocly.yaml .make/description/openapi.json

# Generates clients from the description, and runs the whole migration with them. It needs node.
clients: environment-dev
	PYTHONPATH=tests $(BIN)/python tools/clients

# Compares the running service with its description for ten minutes, as every night.
fuzz: environment-dev
	MIGRATION_SERVICE_FUZZ=20 $(BIN)/pytest -n 0 --timeout 7200 tests/e2e/test_described_interface.py $(ARGS)

# Writes the bill of materials of each lock file as CycloneDX to build/sbom.
sbom: build/supply-venv/installed
	mkdir -p build/sbom
	for lock in requirements requirements-otel requirements-local; do \
	    build/supply-venv/bin/cyclonedx-py requirements $$lock.lock \
	        --output-reproducible --output-format JSON --output-file build/sbom/$$lock.cdx.json || exit 1; \
	done

build/supply-venv/installed: tools/supply/requirements.lock
	$(PYTHON) -m venv build/supply-venv
	build/supply-venv/bin/pip install --quiet --require-hashes --requirement tools/supply/requirements.lock
	touch $@

supply-lock:
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-annotate --no-header \
	    tools/supply/requirements.in -o tools/supply/requirements.lock

# Asks PyPI which locked versions have known vulnerabilities. It fails if one has, or if PyPI does not answer for one.
# requirements-dev.lock has all that the other locks of this folder have.
# A mirror of OSV instead: PIP_AUDIT_VULNERABILITY_SERVICE=osv PIP_AUDIT_OSV_URL=https://osv.example/v1/query make audit
audit: build/supply-venv/installed
	for lock in requirements-dev.lock */requirements.lock tools/*/requirements.lock tests/*/requirements.lock; do \
	    build/supply-venv/bin/pip-audit --strict --disable-pip --progress-spinner off -r $$lock || exit 1; \
	done

format: environment-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Also writes what the client has from the description of the interface, if that may have changed.
environment:
	@$(PYTHON) tools/environment.py requirements-local.lock

# A superset of requirements-local.lock with the same versions, so it can be added while the service runs.
environment-dev:
	@$(PYTHON) tools/environment.py requirements-dev.lock

# The lock files have hashes, and the same versions:
#   requirements.lock         production images
#   requirements-otel.lock    production images that send traces (EXTRAS=otel)
#   requirements-local.lock   `make run`: with PostgreSQL and Valkey in wheels
#   requirements-dev.lock     all of it, and the tools for contributors
# Extras are locked, too. Otherwise pip may take the newest version of a package that is wanted with one, and miss its hash.
COMPILE = $(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-annotate --no-header \
    --extra build setup.cfg

lock:
	$(COMPILE) -o requirements.lock
	$(COMPILE) --extra otel -c requirements.lock -o requirements-otel.lock
	$(COMPILE) --extra local -c requirements.lock -o requirements-local.lock
	$(COMPILE) --extra local --extra otel --extra dev -c requirements-otel.lock -c requirements-local.lock \
	    -o requirements-dev.lock

# Writes the documentation as a site to build/site.
site: build/site-venv/installed
	build/site-venv/bin/zensical build --strict --clean
	build/site-venv/bin/python tools/markdown_pages.py

build/site-venv/installed: tools/site/requirements.lock
	$(PYTHON) -m venv build/site-venv
	build/site-venv/bin/pip install --quiet --require-hashes --requirement tools/site/requirements.lock
	touch $@

# Writes the pages that are generated from the code.
docs: environment-dev
	$(BIN)/python tools/reference_pages.py

clean:
	rm -rf $(VENV) .make build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -f $(addprefix clients/python/src/migration_service_client/, codes.py models.py operations.py command/event_examples.ndjson command/operations.ndjson)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
