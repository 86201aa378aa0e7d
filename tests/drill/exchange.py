"""`python -m drill.exchange`: each secret of docs/operators/secrets.md is exchanged under load, as it says.

Two hosts behind the documented HAProxy create accounts, tell a webhook of them, and send their customers
e-mail. It exits 1 if a request failed of which the page does not say it, or if an account, an event or an
e-mail was lost.
"""

import json
import os
import re
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click
import psutil
import psycopg
import requests
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from click.testing import CliRunner
from redis import AuthenticationError, Redis
from sqlalchemy import make_url

from drill.load import Load
from drill.scene import IN_PROGRESS, SUPPLIER, Address, obtain_token
from drill.upgrade import Hosts, Version, failures
from migration_service_client.command import main as run_client
from migration_service_client.models import CertificateAnswer
from migration_service_local.sandbox import SandboxServer
from migration_service_local.servers.ports import LOOPBACK, random_free_port
from support.mail_box import Mailbox
from support.receivers import Receiver
from support.servers import COMMAND, EmbeddedServers, temporary_folder, wait_until
from support.web_servers import ROOT, nginx

_LONGEST = 300
_BETWEEN = 5
_MAILS = "SELECT count(*) FROM customer_email WHERE state <> 'SENT'"
_DELIVERIES = "SELECT count(*) FROM webhook_delivery WHERE state = 'PENDING'"
_VENDOR_SECRET = "DRILL_VENDOR_SECRET"
_HERE = Version("here", ROOT, sys.executable)


def _url(url: str, **changes: Any) -> str:
    return make_url(url).set(**changes).render_as_string(hide_password=False)


def _new_key() -> str:
    return urlsafe_b64encode(secrets.token_bytes(32)).decode()


class _Drill:
    """The hosts, and what they send to: a mail server, a payment vendor and webhooks."""

    def __init__(self, stack: ExitStack, servers: EmbeddedServers, folder: Path) -> None:
        self.servers, self.folder, self._stack = servers, folder, stack
        self.box, self.mail_password = Mailbox(), "first"
        mail = Controller(
            *(self.box, LOOPBACK, random_free_port()), authenticator=self._log_in, auth_require_tls=False
        )
        mail.start()
        stack.callback(mail.stop)
        self._mail = f"smtp://drill:{{}}@{LOOPBACK}:{mail.port}"
        self.vendor = SandboxServer(secret="first")
        threading.Thread(target=self.vendor.serve_forever, daemon=True).start()
        stack.callback(self.vendor.shutdown)
        self.receivers: list[Receiver] = []
        variables = {
            "MIGRATION_SERVICE_WEBHOOK_HTTP": "on",
            "MIGRATION_SERVICE_WEBHOOK_NETWORKS": "127.0.0.0/8",
            "MIGRATION_SERVICE_WEBHOOK_SECRET_KEYS": _new_key(),
            "MIGRATION_SERVICE_CERTIFICATE_KEY": _new_key(),
            "MIGRATION_SERVICE_METRICS_TOKEN": "first",
            "MIGRATION_SERVICE_EMAIL_FROM": "drill@sample-energy.example",
            "MIGRATION_SERVICE_SMTP_URL": self._mail.format("first"),
            "MIGRATION_SERVICE_SECRET_KEY": servers.home.secret("secret_key"),
            "DATABASE_URL": servers.database_url,
            "REDIS_URL": servers.redis_url,
            "MIGRATION_SERVICE_OWNER_DATABASE_URL": servers.owner_url,
            _VENDOR_SECRET: "first",
        }
        self.hosts = Hosts(stack, servers, folder, _HERE, variables)
        self.command("suppliers", "set-emails", SUPPLIER, "on", "--send", "at_creation", "--yes")
        vendor = f"http://{LOOPBACK}:{self.vendor.server_address[1]}"
        self.command(
            "vendors", "create", "Drill", "--kind", "http", "--url", vendor, "--secret-env", _VENDOR_SECRET
        )
        self.add_webhook()

    def _log_in(self, _server: Any, _session: Any, _envelope: Any, _how: str, login: Any) -> AuthResult:
        is_right = isinstance(login, LoginPassword) and login.password == self.mail_password.encode()
        return AuthResult(success=is_right)

    def command(self, *arguments: str, **variables: str) -> str:
        """Run a command of operators, and return its output."""
        environment = os.environ | self.hosts.variables | variables
        done = subprocess.run(
            [COMMAND, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert not done.returncode, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def add_webhook(self) -> None:
        """Let a further webhook be told of accounts."""
        receiver = Receiver()
        self._stack.callback(receiver.close)
        asked = {"url": receiver.url, "event_types": ["account.created"]}
        answer = self.hosts.send("POST", "webhooks/", json=asked)
        assert answer.status_code == requests.codes.created, answer.text
        self.receivers.append(receiver)

    def restart(self, load: Load, *kinds: str, **variables: str) -> None:
        """Restart workers, then web servers, one after the other, with these variables."""
        self.hosts.variables |= variables
        for kind in kinds or ("worker", "web"):
            self.hosts.replace(kind, _HERE, load, _BETWEEN)


def _exchange_signing_key(drill: _Drill, load: Load) -> None:
    old, new = drill.hosts.variables["MIGRATION_SERVICE_SECRET_KEY"], secrets.token_urlsafe(32)
    accepted = "MIGRATION_SERVICE_ACCEPTED_SECRET_KEYS"
    drill.restart(load, "web", **{accepted: new})
    drill.restart(load, "web", MIGRATION_SERVICE_SECRET_KEY=new, **{accepted: old})
    assert drill.hosts.send("GET", "webhooks/").ok, "an older token is accepted"


def _exchange_database_password(drill: _Drill, load: Load) -> None:
    old = drill.hosts.variables["DATABASE_URL"]
    new = _url(old, username="migration_service_2", password="second")
    with drill.servers.connect_as_superuser() as superuser:
        superuser.execute("CREATE ROLE migration_service_2 LOGIN PASSWORD 'second'")
    drill.command("revisions", "upgrade", DATABASE_URL=new)
    drill.restart(load, DATABASE_URL=new)
    drill.hosts.database_url = new
    role = make_url(old).username
    with drill.servers.postgres.connect_as_superuser(make_url(old).database or "") as superuser:
        superuser.execute(f"DROP OWNED BY {role}".encode())
        superuser.execute(f"DROP ROLE {role}".encode())


def _exchange_owner_password(drill: _Drill, load: Load) -> None:
    old = drill.hosts.variables["MIGRATION_SERVICE_OWNER_DATABASE_URL"]
    with drill.servers.connect_as_superuser() as superuser:
        superuser.execute(f"ALTER ROLE {make_url(old).username} PASSWORD 'second'".encode())
    new = drill.hosts.variables["MIGRATION_SERVICE_OWNER_DATABASE_URL"] = _url(old, password="second")
    drill.command("revisions", "upgrade")
    try:
        psycopg.connect(old).close()
    except psycopg.OperationalError:
        psycopg.connect(new).close()
    else:
        raise AssertionError("the old password of the owner is accepted")


def _exchange_redis_password(drill: _Drill, load: Load) -> None:
    """Exchange it with two passwords for a while."""
    old = drill.hosts.variables["REDIS_URL"]
    new = _url(old, password="second")
    with Redis.from_url(old) as redis:
        redis.execute_command("ACL", "SETUSER", "default", ">second")
        drill.restart(load, REDIS_URL=new)
        redis.execute_command("ACL", "SETUSER", "default", f"<{make_url(old).password}")
    _is_refused_by_redis(old)


def _exchange_redis_password_at_once(drill: _Drill, load: Load) -> None:
    old = drill.hosts.variables["REDIS_URL"]
    with Redis.from_url(old) as redis:
        redis.config_set("requirepass", "third")
    drill.restart(load, REDIS_URL=_url(old, password="third"))
    _is_refused_by_redis(old)


def _is_refused_by_redis(url: str) -> None:
    with Redis.from_url(url) as redis:
        try:
            redis.ping()
        except AuthenticationError:
            return
    raise AssertionError("Redis accepts the old password")


def _exchange_webhook_keys(drill: _Drill, load: Load) -> None:
    old = drill.hosts.variables["MIGRATION_SERVICE_WEBHOOK_SECRET_KEYS"]
    drill.restart(load, MIGRATION_SERVICE_WEBHOOK_SECRET_KEYS=f"{_new_key()},{old}")
    drill.add_webhook()
    told = [len(it.requests) for it in drill.receivers]

    def all_are_told() -> bool:
        return all(len(it.requests) > before for it, before in zip(drill.receivers, told, strict=True))

    wait_until(all_are_told, "an event for each webhook", _LONGEST)


def _exchange_certificate_key(drill: _Drill, load: Load) -> None:
    old = _certify(drill)
    drill.restart(load, MIGRATION_SERVICE_CERTIFICATE_KEY=_new_key())
    new = _certify(drill)
    assert old.public_key != new.public_key
    for it in (old, new):
        content = drill.hosts.send("GET", f"certificates/{it.certificate_id}/file/").content
        (drill.folder / "certificate").write_bytes(content)
        arguments = ("certificate", "verify", str(drill.folder / "certificate"), "--key", str(it.public_key))
        verified = CliRunner().invoke(run_client, arguments)
        assert verified.exit_code == 0, verified.output


def _certify(drill: _Drill) -> CertificateAnswer:
    """Compare the accounts, and make a certificate of them. Return what is known of it."""
    with drill.hosts.client() as client:
        client.reconcile_import_supplier(SUPPLIER)
        made = client.start_certificate(import_supplier=SUPPLIER, by="Drill").certificate_id
        wait_until(lambda: client.get_certificate(made).public_key, "the certificate", _LONGEST)
        return client.get_certificate(made)


def _exchange_metrics_token(drill: _Drill, load: Load) -> None:
    drill.restart(load, "web", MIGRATION_SERVICE_METRICS_TOKEN="second")
    url = f"{drill.hosts.address.url}/metrics"
    statuses = [
        requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=60).status_code
        for token in ("first", "second")
    ]
    assert statuses == [requests.codes.unauthorized, requests.codes.ok], statuses


def _exchange_mail_password(drill: _Drill, load: Load) -> None:
    drill.mail_password = "second"
    sent = len(drill.box.messages)
    wait_until(
        partial(drill.hosts.query, "SELECT 1 FROM customer_email WHERE failures > 0"), "one waits", _LONGEST
    )
    drill.restart(load, "worker", MIGRATION_SERVICE_SMTP_URL=drill._mail.format("second"))
    wait_until(lambda: len(drill.box.messages) > sent, "mails are sent again", _LONGEST)


def _exchange_vendor_secret(drill: _Drill, load: Load) -> None:
    drill.vendor.secret = "second"
    numbers = [it.number for it in load.journal.created() if not it.undone][:5]
    lines = [
        {
            "import_supplier": SUPPLIER,
            "external_account_number": it,
            "vendor": "Drill",
            "reference": f"card-ok-{it}",
            "type": "CARD",
        }
        for it in numbers
    ]
    with drill.hosts.client() as client:
        kind = "payment-instructions"
        started = client.start_batch(lines, import_supplier=SUPPLIER, mode="import", kind=kind)
        batch = started.batch_id
        refused = client.wait_for_batch(batch).counts
        assert refused["FAILED"] == len(lines), refused
        drill.restart(load, **{_VENDOR_SECRET: "second"})
        client.retry_failed_lines(batch)
        added = client.wait_for_batch(batch).counts
        assert added["ADDED"] == len(lines), added


def _exchange_api_key(drill: _Drill, load: Load) -> None:
    old = drill.hosts.addresses[1]
    issued = json.loads(drill.command("api-keys", "issue", "--organisation", "Drill", "--json"))
    obtain_token(Address(old.url, issued["api_key"]))
    listed = map(json.loads, drill.command("api-keys", "list", "--json").splitlines())
    drill.command("api-keys", "revoke", next(it["prefix"] for it in listed if it["prefix"] in old.api_key))
    try:
        obtain_token(old)
    except requests.RequestException:
        return
    raise AssertionError("a revoked key is accepted")


def _exchange_certificate(drill: _Drill, load: Load) -> None:
    folder, answers, enough = temporary_folder(), [], threading.Event()
    script = ["sh", str(ROOT / "deployment/secrets.sh")]
    make = partial(
        subprocess.run, script, env=os.environ | {"MIGRATION_SERVICE_SECRETS": str(folder)}, check=True
    )
    make()
    bundle, certificate = folder / "both.pem", folder / "TLS_CERTIFICATE"
    shutil.copy(certificate, bundle)

    def ask(port: int) -> None:
        while not enough.is_set():
            url = f"https://localhost:{port}/health/live"
            answers.append(requests.get(url, verify=str(bundle), timeout=60).status_code)

    with nginx(drill.hosts.sockets[0], secrets=folder) as port, ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask, port) for _ in range(4)]
        try:
            wait_until(lambda: len(answers) > 20, "answers with the old certificate")
            certificate.unlink()
            (folder / "TLS_KEY").unlink()
            make()
            new = certificate.read_text()
            bundle.write_text(bundle.read_text() + new)
            _main_process_of_nginx(folder).send_signal(signal.SIGHUP)
            shown = partial(ssl.get_server_certificate, (LOOPBACK, port))
            wait_until(lambda: shown().split() == new.split(), "the new certificate")
            before = len(answers)
            wait_until(lambda: len(answers) > before + 20, "answers with the new certificate")
        finally:
            enough.set()
        for it in asking:
            it.result()
    assert set(answers) == {requests.codes.ok}, answers
    shutil.rmtree(folder)


def _main_process_of_nginx(secrets_folder: Path) -> psutil.Process:
    for process in psutil.Process().children(recursive=True):
        found = re.search(r"^nginx: master .* -c (\S+)", " ".join(process.cmdline()))
        if found and str(secrets_folder) in Path(found[1]).read_text():
            return process
    raise AssertionError("nginx does not run")


#: What is exchanged, and the statuses of requests that may fail meanwhile, as the page says.
_EXCHANGES: tuple[tuple[Callable[[_Drill, Load], None], set[str]], ...] = (
    (_exchange_signing_key, set()),
    (_exchange_database_password, set()),
    (_exchange_owner_password, set()),
    (_exchange_redis_password, set()),
    (_exchange_webhook_keys, set()),
    (_exchange_certificate_key, set()),
    (_exchange_metrics_token, set()),
    (_exchange_mail_password, set()),
    (_exchange_vendor_secret, set()),
    (_exchange_certificate, set()),
    (_exchange_api_key, set()),
    (_exchange_redis_password_at_once, {"503", "429"}),
)


def _has_none(hosts: Hosts, statement: str) -> bool:
    return not hosts.query(statement)[0][0]


def _run(only: str) -> bool:
    folder, is_fine = temporary_folder(), True
    with ExitStack() as stack:
        servers = stack.enter_context(EmbeddedServers(durable=True))
        servers.upgrade()
        drill = _Drill(stack, servers, folder)
        with Load(drill.hosts, suppliers=4) as load:
            for exchange, may_fail in _EXCHANGES:
                if not re.search(only, exchange.__name__):
                    continue
                before, began = Counter(load.journal.statuses), time.monotonic()
                exchange(drill, load)
                met = Counter(load.journal.statuses) - before
                failed = {it: met[it] for it in failures(load.journal) if met[it]}
                is_fine = is_fine and failed.keys() <= may_fail
                took = f"{met.total()} requests in {time.monotonic() - began:.0f} s"
                click.echo(f"{exchange.__name__[1:]}: {took}, {failed or 'none'} failed")
        for waiting in (IN_PROGRESS, _MAILS, _DELIVERIES):
            wait_until(partial(_has_none, drill.hosts, waiting), f"none of {waiting}", _LONGEST)
        created, lost = load.journal.created(), load.wrong(drill.hosts)
        # An account stays whose customer has been told of it.
        surprises = [it for it in load.journal.surprises if "not undone, but KEPT" not in it]
        told = [
            {json.loads(body)["data"]["service_account_number"] for _, body in it.requests}
            for it in drill.receivers
        ]
    shutil.rmtree(folder)
    untold = {it.service_account_number for it in created} - told[0]
    click.echo(f"{len(created)} accounts, {len(lost)} lost, {len(untold)} of which the webhook was not told")
    for surprise in surprises:
        click.echo(f"  {surprise}")
    return is_fine and not (lost or untold or surprises)


@click.command()
@click.option("--only", default="", metavar="PATTERN", help="Only those whose names have this.")
def main(only: str) -> None:
    """Exchange every secret under load."""
    sys.exit(0 if _run(only) else 1)


if __name__ == "__main__":
    main()
