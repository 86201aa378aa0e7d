"""Starts everything that is measured: the servers, the service with staged accounts, and the peers."""

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from benchmarks.bench import Bench, Extent
from benchmarks.payloads import NUMBER, SUPPLIER, TEAM, make_payloads, write_lines
from benchmarks.seed import set_up_caller, set_up_peer, stage_templates
from benchmarks.stack import PROCESSES, Stack, answers
from migration_service_local.servers.ports import random_free_port


@contextmanager
def running_bench(extent: Extent, payloads: int, *, peers: bool = False) -> Iterator[Bench]:
    """Start servers and the service, and stop them at the end of the block; `peers` starts those, too."""
    with Stack() as stack, tempfile.TemporaryDirectory(prefix="migration-service-bench-") as name:
        folder = Path(name)
        texts = make_payloads(payloads)
        api_key, token = set_up_caller(stack.settings)
        templates = stage_templates(stack.settings, texts[:500])
        stack.start_service()
        peer_port = random_free_port()
        process_body = {
            "external_account_number": NUMBER,
            "import_supplier_code": SUPPLIER,
            "operations_team_name": TEAM,
        }
        if peers:
            _start_peers(stack, peer_port, token)
        yield Bench(
            stack=stack,
            extent=extent,
            api_key=api_key,
            token=token,
            texts=texts,
            folder=folder,
            bodies=write_lines(folder / "payloads.ndjson", texts),
            process_body=write_lines(folder / "process.json", [json.dumps(process_body)]),
            peer_port=peer_port,
            templates=templates,
        )


def _start_peers(stack: Stack, port: int, token: str) -> None:
    schema = (Path(__file__).parent / "peers" / "schema.sql").read_text()
    set_up_peer(stack.settings, schema, token)
    description = stack.folder / "openapi.json"
    with urlopen(f"http://127.0.0.1:{stack.web_port}/v1/openapi.json") as answer:
        description.write_bytes(answer.read())
    servers = {
        "DATABASE_URL": stack.settings.database_url,
        "REDIS_URL": stack.settings.redis_url,
        "DESCRIPTION": str(description),
    }
    stack.start_peer(
        "staging_api",
        [
            *("-m", "uvicorn", "staging_api:app", "--port", str(port), "--workers", str(PROCESSES)),
            *("--no-access-log", "--log-level", "warning"),
        ],
        servers,
        lambda: answers(port, "/health"),
    )
    stack.start_peer(
        "empty_task",
        [
            *("-m", "celery", "-A", "empty_task", "worker", "--loglevel", "WARNING"),
            *("-c", str(PROCESSES), "--without-gossip", "--without-mingle"),
        ],
        servers,
    )


def say(text: str) -> None:
    """Write a line for the person who waits."""
    sys.stderr.write(f"{text}\n")
