# One image for the web server, the workers, beat, Flower and the operators' command.
#
#   docker build -t migration-service .
#
# PYTHON_IMAGE may name another image with Python 3.11 or newer, for example a mirrored one. Everything that is
# installed is in a lock file with its hash: requirements.lock, or requirements-otel.lock with EXTRAS=otel.
# PIP_ARGS has further options for pip, for example another index.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ARG PIP_ARGS=""
# otel: the libraries that send traces.
ARG EXTRAS=""
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
RUN python -m venv --without-pip /opt/migration-service
COPY requirements.lock requirements-otel.lock ./
RUN pip --python /opt/migration-service/bin/python install ${PIP_ARGS} --require-hashes \
    -r "requirements${EXTRAS:+-$EXTRAS}.lock"
COPY pyproject.toml setup.cfg ./
COPY src src
# setup.cfg reads its long description from README.md, which the image does not need.
RUN touch README.md \
 && pip --python /opt/migration-service/bin/python install -q --no-deps --no-build-isolation .

FROM ${PYTHON_IMAGE}
RUN groupadd --system --gid 10001 migration \
 && useradd --system --uid 10001 --gid migration --home-dir /app --shell /usr/sbin/nologin migration \
 && install -d -o migration -g migration /var/lib/migration-service
COPY --from=build /opt/migration-service /opt/migration-service
WORKDIR /app
COPY wsgi.py celery_worker.py celery_monitor.py ./
# MALLOC_ARENA_MAX: without it, the C library would give each of hundreds of threads a heap, which it keeps.
ENV PATH=/opt/migration-service/bin:$PATH \
    MALLOC_ARENA_MAX=2 \
    PYTHONPATH=/app \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MIGRATION_SERVICE_HOME=/var/lib/migration-service
USER migration
EXPOSE 8000
# After SIGTERM the web server leaves its balancer for 10 seconds, and finishes the requests that it has for up to 40.
STOPSIGNAL SIGTERM
CMD ["python", "-m", "migration_service.web_server", "--bind", "0.0.0.0:8000"]
