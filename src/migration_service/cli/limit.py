"""`migration-service limit`."""

from typing import Any

import click
from redis import RedisError

from migration_service.cli.output import json_option, show_done, show_record
from migration_service.cli.session import CannotRunError, open_session, read_settings
from migration_service.config import Settings
from migration_service.connections import make_redis
from migration_service.services.processing.slots import Slots
from migration_service.services.setup.limits import (
    LARGEST_LIMIT,
    get_concurrency_limit,
    set_concurrency_limit,
)


class LimitType(click.ParamType[int | None]):
    """A number of accounts, or `off`."""

    name = "limit"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """Return the number, or None for `off`."""
        text = str(value).lower()
        if text == "off":
            return None
        if not (text.isascii() and text.isdigit() and 1 <= int(text[:10]) <= LARGEST_LIMIT):
            self.fail(f"{value!r} is neither `off` nor a whole number from 1 to {LARGEST_LIMIT}.", param, ctx)
        return int(text)


@click.group()
def limit() -> None:
    """Show or set how many accounts may be processed at the same time."""


@limit.command()
@json_option
def show(as_json: bool) -> None:
    """Show the limit and the number of slots in use."""
    settings = read_settings()
    with open_session(settings) as session:
        concurrency_limit = get_concurrency_limit(session)
    in_use = _slots_in_use(settings)
    found = {"concurrency_limit": concurrency_limit, "slots_in_use": in_use}
    unknown = {"concurrency_limit": "off", "slots_in_use": "unknown: Redis is unavailable"}
    people = {name: unknown[name] if value is None else value for name, value in found.items()}
    show_record(found if as_json else people, as_json)


@limit.command("set")
@click.argument("concurrency_limit", metavar="N|off", type=LimitType())
@json_option
def change(concurrency_limit: int | None, as_json: bool) -> None:
    """Process at most N accounts at the same time. `off` removes the limit.

    The limit applies to new requests immediately. Accounts that are already being processed are not affected.
    """
    with open_session(read_settings()) as session:
        set_concurrency_limit(session, concurrency_limit)
    sentence = "The number of accounts processed at the same time is no longer limited."
    if concurrency_limit is not None:
        noun = "account is" if concurrency_limit == 1 else "accounts are"
        sentence = f"At most {concurrency_limit} {noun} processed at the same time."
    show_done({"concurrency_limit": concurrency_limit}, as_json, sentence)


def _slots_in_use(settings: Settings) -> int | None:
    """Return how many slots are held, or None while Redis is unavailable.

    Raise CannotRunError for an invalid address.
    """
    try:
        with make_redis(settings.redis_url, max_connections=1) as redis:
            return Slots(redis).in_use()
    except RedisError:
        return None
    except ValueError as error:
        raise CannotRunError(
            "REDIS_URL is not an address. Expected: redis://:password@host:port/0"
        ) from error
