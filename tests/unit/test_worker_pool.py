"""A worker ends soon after its signal, and so do its children."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from celery.signals import worker_init, worker_process_init, worker_process_shutdown, worker_shutting_down
from kombu.asynchronous import Hub, get_event_loop, set_event_loop

from migration_service.tasks.worker_pool import end_promptly

#: A child with a receiver of its own, such as the one that sends the last spans.
CHILD = """
from celery.signals import worker_process_init, worker_process_shutdown
from migration_service.tasks.worker_pool import end_promptly

def begin(**_):
    worker_process_shutdown.connect(end)

def end(**_):
    print("the last spans", flush=True)

worker_process_init.connect(begin)
end_promptly()
worker_process_init.send(sender=None)
worker_process_shutdown.send(sender=None, pid=1, exitcode=7)
print("still there", flush=True)
"""


@pytest.fixture(autouse=True)
def signals(monkeypatch: pytest.MonkeyPatch) -> None:
    for signal in (worker_init, worker_process_init, worker_process_shutdown, worker_shutting_down):
        monkeypatch.setattr(signal, "receivers", [])


@pytest.fixture
def hub() -> Iterator[Hub]:
    """An event loop that has nothing to do for ten seconds."""
    before = get_event_loop()
    hub = Hub()
    set_event_loop(hub)
    hub.timer.call_after(60, bool)
    reader, writer = os.pipe()
    hub.add_reader(reader, os.read, reader, 1)
    os.write(writer, b".")
    yield hub
    set_event_loop(before)
    hub.close()
    os.close(reader)
    os.close(writer)


def test_a_signal_wakes_the_loop_of_an_idle_worker(hub: Hub) -> None:
    end_promptly()
    loop = hub.create_loop()
    next(loop)  # reads the byte
    began = time.monotonic()
    worker_shutting_down.send(sender="a worker")
    next(loop)
    assert time.monotonic() - began < 8, "the loop waited for its timer"


def test_a_child_ends_after_all_who_wanted_to_know_and_does_not_wait_for_its_parent() -> None:
    ended = subprocess.run([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (7, "the last spans\n")
