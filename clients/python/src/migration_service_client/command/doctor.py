"""`migration-client doctor`."""

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from urllib.parse import urlsplit

import click

from migration_service_client import codes
from migration_service_client.command.online import Service, online
from migration_service_client.command.output import count, escape, json_option, show_json
from migration_service_client.command.probe import Seen, probe
from migration_service_client.models import ApiKeyAnswer

_OK, _WARNING, _WRONG = "ok", "warning", "wrong"
_COLOURS = {_OK: "green", _WARNING: "yellow", _WRONG: "red"}
#: Seconds by which a clock may be wrong. Webhooks that are older than the second are refused.
_CLOCK_WARNING, _CLOCK_WRONG = 30.0, 300.0
#: How long before its end a certificate or a key is worth a warning.
_SOON = timedelta(days=14)
_LOCAL = ("localhost", "127.0.0.1", "::1")
_OTHERS = 0o077


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about one part. `advice` says what to do next."""

    part: str
    verdict: str
    seen: str
    advice: str | None = None


@click.command()
@json_option
@online()
def doctor(*, as_json: bool, service: Service) -> None:
    """Check what lies between this machine and the service, and what your key may do.

    Prints a line for each part: versions, proxy, TLS, clock, the key with its scopes and networks, limits.
    The exit status is 0 if no part is wrong, 1 if one is, and 2 if the command could not run.
    """
    service.require()
    verdicts = set()
    for found in _examine(service, str(service.url)):
        verdicts.add(found.verdict)
        if as_json:
            show_json(found)
            continue
        verdict = click.style(f"{found.verdict:<7}", fg=_COLOURS[found.verdict], bold=True)
        click.echo(f"{verdict}  {found.part:<10}  {escape(found.seen)}")
        if found.advice:
            click.echo(f"{'':<21}-> {escape(found.advice)}")
    if _WRONG in verdicts:
        click.get_current_context().exit(1)


def _examine(service: Service, url: str) -> Iterator[Finding]:
    yield Finding(
        "client",
        _OK,
        f"migration-client {version('migration-service-client')}, Python {platform.python_version()}",
    )
    with service.client() as client:
        seen = probe(client)
    yield _of_proxy(seen, url)
    if seen.way.is_refused:
        yield Finding(
            "tls",
            _WRONG,
            f"The certificate is not accepted: {seen.failure}.",
            "Ask the operator which authority has signed it. A wrong clock also makes certificates invalid.",
        )
        return
    if seen.failure:
        yield Finding(
            "service",
            _WRONG,
            f"{url} does not answer: {seen.failure}.",
            "Check the address, the proxy, and whether a firewall lets this machine through.",
        )
        return
    yield _of_tls(seen, url)
    yield _of_clock(seen)
    if not seen.is_service:
        yield Finding(
            "service",
            _WRONG,
            f"Something else than the service answers at {url}.",
            "Check the address and the proxy.",
        )
        return
    yield from _of_key(service)


def _of_proxy(seen: Seen, url: str) -> Finding:
    if seen.way.proxy is None and urlsplit(url).scheme == "http" and "HTTP_PROXY" in os.environ:
        return Finding("proxy", _OK, "none: HTTP_PROXY is not read for http://, only http_proxy")
    return Finding("proxy", _OK, seen.way.proxy or "none")


def _of_tls(seen: Seen, url: str) -> Finding:
    if seen.way.tls is None:
        if urlsplit(url).hostname in _LOCAL:
            return Finding("tls", _OK, "none, on this machine")
        return Finding("tls", _WARNING, "none: everybody on the way can read the key.", "Use https://.")
    ends = seen.certificate_ends
    text = f"{seen.way.tls}, the certificate ends on {ends:%Y-%m-%d}" if ends else seen.way.tls
    if ends and ends - datetime.now(UTC) < _SOON:
        return Finding("tls", _WARNING, text, "Tell the operator.")
    return Finding("tls", _OK, text)


def _of_clock(seen: Seen) -> Finding:
    if seen.clock_ahead is None:
        return Finding("clock", _WARNING, "The answer has no date to compare with.")
    seconds = abs(seen.clock_ahead)
    way = "ahead of" if seen.clock_ahead > 0 else "behind"
    if seconds < _CLOCK_WARNING:
        return Finding("clock", _OK, "agrees with the service")
    return Finding(
        "clock",
        _WRONG if seconds >= _CLOCK_WRONG else _WARNING,
        f"{seconds:.0f} seconds {way} that of the service",
        "Set the clock of this machine: signatures of webhooks hold for five minutes.",
    )


def _of_key(service: Service) -> Iterator[Finding]:
    if service.key_file is not None and service.key_file.stat().st_mode & _OTHERS:
        advice = f"Run: chmod 600 {service.key_file}"
        yield Finding("key file", _WARNING, f"Other users can use {service.key_file}.", advice)
    try:
        with service.client() as client:
            key = client.get_api_key()
    except (codes.AuthenticationFailed, codes.PermissionDenied) as error:
        yield Finding("key", _WRONG, error.detail, "Ask the operator.")
        return
    yield _of_expiry(key)
    yield Finding("scopes", _OK, ", ".join(key.scopes) if key.scopes is not None else "all")
    suppliers = ", ".join(key.import_suppliers) if key.import_suppliers is not None else "all of yours"
    yield Finding("suppliers", _OK, suppliers)
    networks = ", ".join(key.allowed_networks) if key.allowed_networks is not None else "any"
    yield Finding("networks", _OK, f"{networks}; this machine is {key.address}")
    yield Finding("service", _OK, f"version {key.version}")
    limits = key.limits
    yield Finding(
        "limits",
        _OK,
        f"{limits.body_bytes:,} bytes in a body or a line; {limits.batch_bytes:,} bytes and "
        f"{limits.batch_lines:,} lines in a batch",
    )


def _of_expiry(key: ApiKeyAnswer) -> Finding:
    text = f"{key.api_key} of {key.organisation}"
    if key.expires_at is None:
        return Finding("key", _OK, text)
    left = key.expires_at - datetime.now(UTC)
    text = f"{text}, expires in {count(max(0, left.days), 'day')}"
    if left < _SOON:
        return Finding("key", _WARNING, text, "Ask the operator for another key.")
    return Finding("key", _OK, text)
