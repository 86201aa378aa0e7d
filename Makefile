# The whole interface for a newcomer: make run, make test. The rest is for those who work on it.
#
#   make run ARGS="--sample 1000 --port 8080"    what `migration-service up --help` lists
#   make PYTHON=/path/to/python3 run             with another Python (3.11 or newer)

VENV := .venv
BIN  := $(VENV)/bin
UV   ?= uv

# The first Python that is new enough. `python3` may be an old one, or a shim that finds none here.
CANDIDATES := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3)
override PYTHON := $(shell for python in $(CANDIDATES); do \
    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
    then echo $$python; break; fi; done)
ifeq ($(PYTHON),)
$(error Python 3.11 or newer is needed, and none of these is: $(CANDIDATES). Name one: make PYTHON=/path/to/python3)
endif

.PHONY: run test mutate bench bench-tools bench-lock site-lock supply-lock sbom audit drill compose-check prometheus-check describe-check clients fuzz check format lock docs site clean environment environment-dev
.DEFAULT_GOAL := run

run: environment
	$(BIN)/migration-service up $(ARGS)

# Two processes, as some tests load the whole machine by themselves; the checks run beside them. Some tests
# only, or all in the order of a run that failed:
#   make test ARGS="-n 0 tests/unit/test_slots.py"    make test ARGS=--randomly-seed=1234
test: environment-dev
	@$(MAKE) --no-print-directory check > .make/check.log 2>&1 & checks=$$!; \
	$(BIN)/pytest -n 2 --dist loadgroup $(ARGS); tests=$$?; \
	wait $$checks || { cat .make/check.log; exit 1; }; \
	exit $$tests

# The real service, damaged at random under load, then counted: make drill ARGS="--rounds 20 --seed 7"
# Services with a known bug each, all of which it has to find:   make drill ARGS=--inject
drill: environment-dev
	PYTHONPATH=tests $(BIN)/python -m drill $(ARGS)

# Which small changes of a module no test notices (docs/contributors/tests.md); minutes to an hour:
#   make mutate MODULE=src/migration_service/slots.py
#   make mutate CHANGED=main~20
mutate: environment-dev
	$(BIN)/python tools/mutate.py $(if $(CHANGED),--changed $(CHANGED)) $(MODULE) $(ARGS)

# How fast it is, beside what people would otherwise use: make bench ARGS=--quick
# What a change made faster or slower:                    make bench ARGS="--compare main"
bench: bench-tools environment benchmarks/.venv/installed
	$(BIN)/python -m benchmarks $(ARGS)

# What is missing on the machine, before anything is built.
bench-tools:
	@command -v wrk > /dev/null || { echo "The load generator wrk is missing: \`apt install wrk\` (Debian, Ubuntu), \`brew install wrk\`." >&2; exit 1; }

benchmarks/.venv/installed: benchmarks/requirements.lock
	$(PYTHON) -m venv benchmarks/.venv
	benchmarks/.venv/bin/pip install --quiet --require-hashes --requirement benchmarks/requirements.lock
	touch $@

bench-lock:
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	    benchmarks/requirements.in -o benchmarks/requirements.lock

site-lock:
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	    tools/site/requirements.in -o tools/site/requirements.lock

check: environment-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The containers of docker-compose.yml for real: needs a container engine and docker-compose.
compose-check: environment
	$(BIN)/python tools/compose_check.py $(ARGS)

# The dashboard and the alerts against a real Prometheus: needs Debian's package prometheus.
prometheus-check: environment
	$(BIN)/python tools/prometheus_check.py

# The interface description, by two linters with their recommended rules: needs node.
describe-check: environment
	mkdir -p .make/description
	cp tools/description/package.json .make/description/
	npm install --prefix .make/description --no-audit --no-fund --silent
	$(BIN)/python tools/description/write.py .make/description/openapi.json
	.make/description/node_modules/.bin/spectral lint --fail-severity warn \
	    --ruleset tools/description/spectral.yaml .make/description/openapi.json
	.make/description/node_modules/.bin/redocly lint --max-problems 1000 \
	    --config tools/description/redocly.yaml .make/description/openapi.json

# Clients that are generated from the description, and drive the whole migration: needs node and Java.
clients: environment
	PYTHONPATH=tools $(BIN)/python tools/clients

# The running service against its own description, for minutes: make fuzz ARGS="--max-time 600"
fuzz: environment-dev
	PYTHONPATH=tools:tests/e2e $(BIN)/python tools/description/fuzz.py $(ARGS)

# The bill of materials of each lock file, as CycloneDX, in build/sbom.
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
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	    tools/supply/requirements.in -o tools/supply/requirements.lock

# The lock files against a dump of advisories: make audit ADVISORIES=/srv/osv/PyPI/all.zip
audit: environment
	$(BIN)/python tools/audit.py $(ADVISORIES)

format: environment-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

environment:
	@$(PYTHON) tools/environment.py requirements-local.lock

# A superset of requirements-local.lock in the same versions: it can be added while the service runs.
environment-dev:
	@$(PYTHON) tools/environment.py requirements-dev.lock

# What is installed where, with hashes, in the same versions:
#   requirements.lock         production images
#   requirements-otel.lock    production images that send traces (EXTRAS=otel)
#   requirements-local.lock   `make run`: with the servers in wheels
#   requirements-dev.lock     all of it, and the tools of those who work on it
COMPILE = $(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
    --extra build setup.cfg

lock:
	$(COMPILE) -o requirements.lock
	$(COMPILE) --extra otel -c requirements.lock -o requirements-otel.lock
	$(COMPILE) --extra local -c requirements.lock -o requirements-local.lock
	$(COMPILE) --extra local --extra otel --extra dev -c requirements-otel.lock -c requirements-local.lock \
	    -o requirements-dev.lock

# The documentation as a site, in build/site.
site: build/site-venv/installed
	build/site-venv/bin/mkdocs build --strict --quiet

build/site-venv/installed: tools/site/requirements.lock
	$(PYTHON) -m venv build/site-venv
	build/site-venv/bin/pip install --quiet --require-hashes --requirement tools/site/requirements.lock
	touch $@

# The pages that are written from the code.
docs: environment-dev
	$(BIN)/python tools/error_docs.py
	$(BIN)/python tools/field_reference.py
	$(BIN)/python tools/settings_docs.py
	$(BIN)/python tools/dashboard.py

clean:
	rm -rf $(VENV) .make build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
