"""No name, e-mail address or telephone number of a customer is in a log, a message, an error or an event."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import requests
from redis import Redis

from drill.scene import SUPPLIER, Scene
from migration_service.connections import make_redis
from migration_service_local.samples import generate_accounts
from support.batch_client import ndjson
from support.servers import wait_until

_PERSONAL = ("given_name", "family_name", "email", "mobile", "landline")


def make_book(beginning: str, count: int, *, broken: bool = False) -> list[dict[str, Any]]:
    """Return accounts whose customers have names that occur nowhere else."""
    share = 1.0 if broken else 0.0
    accounts = list(generate_accounts(count, supplier=SUPPLIER, seed=77, broken_share=share))
    for index, account in enumerate(accounts):
        account["external_account_number"] = f"{beginning}{index}"
        account["billing_address1"] = f"Xaveriuslaan {index}"
        for place, customer in enumerate(_customers(account)):
            if customer.get("family_name"):
                customer["given_name"] = f"Qwirinus{index}q{place}"
                customer["family_name"] = f"Vanderzwaluwx{index}q{place}"
    return accounts


def personal_data(accounts: list[dict[str, Any]]) -> set[str]:
    """Return the texts that must not be found."""
    customers = [customer for account in accounts for customer in _customers(account)]
    found = {str(customer[name]) for customer in customers for name in _PERSONAL if customer.get(name)}
    return {text for text in found if len(text) > 6} | {"Qwirinus", "Vanderzwaluwx", "Xaveriuslaan"}


def _customers(account: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the customers that are objects. A broken account may have other values."""
    found = account.get("customers")
    return [customer for customer in found if isinstance(customer, dict)] if isinstance(found, list) else []


@contextmanager
def everything_sent_to(redis: Redis) -> Iterator[list[str]]:
    """Records what all clients send to Redis meanwhile."""
    commands: list[str] = []

    def listen() -> None:
        with redis.monitor() as monitor:  # type: ignore[no-untyped-call]
            for event in monitor.listen():
                commands.append(str(event))
                if "the end of the test" in commands[-1]:
                    return

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    wait_until(lambda: redis.echo("begun") and commands, "the monitor")
    try:
        yield commands
    finally:
        redis.echo("the end of the test")
        listener.join(10)


@pytest.mark.timeout(900)
def test_personal_data_is_in_no_log_message_metric_error_or_event(scene: Scene) -> None:
    sound, broken, batch = (
        make_book("PRIVATE-ONE-", 25),
        make_book("BROKEN-", 40, broken=True),
        make_book("PRIVATE-BATCH-", 10),
    )
    needles = personal_data(sound + broken + batch)
    answers: list[str] = []
    redis = make_redis(scene.settings["REDIS_URL"], wait_seconds=60)
    with redis, everything_sent_to(redis) as commands:
        for account in sound:
            number = account["external_account_number"]
            for _ in range(2):
                assert scene.send("POST", "account-import-process/create-or-update/", json=account).ok
            answers.append(scene.process(number, wait=True, dry_run=True).text)
            created = scene.process(number, wait=True)
            assert created.status_code == 201, created.text
            answers.append(scene.process(number, wait=True).text)
        for account in broken:
            answer = scene.send("POST", "validate-account/", json=account)
            if answer.status_code == 400:
                answers.append(answer.text)
        customer = sound[0]["customers"][0]
        told = f"{customer['given_name']} {customer['family_name']} called from {customer['mobile']}"
        pair = {"import_supplier": SUPPLIER, "external_account_number": sound[0]["external_account_number"]}
        noted = scene.send("POST", "notes/create/", json={**pair, "notes": [{"body": told}]})
        assert noted.status_code == 201
        scene.start_batch(gzip.compress(ndjson(batch)), content_type="application/gzip")
        wait_until(lambda: scene.states("PRIVATE-BATCH-") == {"IMPORTED": len(batch)}, "the batch is done")
        texts = {
            "the log": scene.service.output,
            "Redis commands": "\n".join(commands),
            "Redis keys": _dump(redis),
            "Flower": _ask_flower(scene),
            "metrics": requests.get(f"{scene.address.url}/metrics", timeout=30).text,
            "error answers": "\n".join(answers),
            "events": "\n".join(_read_events(scene)),
        }
    for place, text in texts.items():
        assert text, place
        leaked = sorted(needle for needle in needles if needle in text)
        assert not leaked, f"{place} has {leaked[:5]}: {_around(text, leaked[0])}"
    # The tables have them, and with those PostgreSQL's own files.
    files = [file for file in scene.home.rglob("*") if "postgres" not in file.parts and file.is_file()]
    contents = [file.read_bytes() for file in files]
    assert contents
    assert not [needle for needle in needles if any(needle.encode() in content for content in contents)]
    assert "PRIVATE-ONE-" in texts["events"]
    assert "accounts.create_set" in texts["Flower"]
    assert "migration:interactive" in texts["Redis commands"]


def _read_events(scene: Scene) -> Iterator[str]:
    """Yield every page of the organisation's events: other tests may have left many."""
    page = scene.send("GET", "events/?limit=1000")
    while events := page.json():
        yield page.text
        page = scene.send("GET", f"events/?limit=1000&cursor={events[-1]['cursor']}")


def _dump(redis: Redis) -> str:
    """Return every key with its stored value."""
    readers: dict[Any, Any] = {
        b"list": lambda key: redis.lrange(key, 0, -1),
        b"hash": redis.hgetall,
        b"set": redis.smembers,
        b"zset": lambda key: redis.zrange(key, 0, -1, withscores=True),
        b"string": redis.get,
        b"none": lambda _: "gone meanwhile",
    }
    return "\n".join(f"{key!r}: {readers[redis.type(key)](key)!r}" for key in redis.scan_iter("*"))


def _ask_flower(scene: Scene) -> str:
    url = scene.settings["FLOWER_URL"]
    credentials = (scene.settings["FLOWER_USER"], scene.settings["FLOWER_PASSWORD"])
    paths = ("/api/tasks", "/tasks", "/metrics", "/api/workers")
    return "\n".join(requests.get(url + path, auth=credentials, timeout=30).text for path in paths)


def _around(text: str, needle: str) -> str:
    place = text.index(needle)
    return text[max(0, place - 300) : place + 200]
