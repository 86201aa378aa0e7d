"""Loads what the workers, beat and Flower have in common, for `Programs.load`:

python -m migration_service_local.up.celery_template DESCRIPTOR
"""

import sys

from migration_service_local.servers.template import serve

#: Nothing here reads a setting when it is loaded, opens a connection or starts a thread.
_MODULES = (
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "celery.worker.consumer",
    "flower.command",
    "kombu.transport.redis",
    "migration_service.celery_app",
    *(
        f"migration_service.tasks.{name}"
        for name in ("accounts", "batches", "counts", "emails", "maintenance", "run_log", "undo", "waves")
    ),
)

if __name__ == "__main__":
    serve(int(sys.argv[1]), _MODULES)
