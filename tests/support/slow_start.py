"""A worker that includes this module has children that start as slowly as on a busy machine."""

import time

from celery.signals import worker_process_init


@worker_process_init.connect
def _wait(**_kwargs: object) -> None:
    time.sleep(6)
