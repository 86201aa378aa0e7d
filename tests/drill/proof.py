"""`python -m drill.proof`: reconciles a book of any size in three ways, while everything is killed.

The book is created as a wave, which is reconciled; then the client reconciles its supplier, and then the
console, through a proxy that cuts connections on which nothing comes. In the middle of each comparison the
background workers, the web server and Valkey are killed. One account is created with another value. All three
have to say so, and nothing else, and no answer may take long to begin.
"""

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
import psycopg
import requests
from rich.console import Console
from rich.table import Table

from drill.scene import TEAM, Scene
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service_local.demo.first_operator import FIRST_OPERATOR, PASSWORD_FILE
from migration_service_local.samples import generate_accounts
from migration_service_local.servers.ports import LOOPBACK, random_free_port
from support.client_command import environment_of
from support.console_client import text_of
from support.servers import ending_with_us, temporary_folder, wait_until
from support.web_servers import HAPROXY, is_answered

SUPPLIER = "PROOF"
#: What is killed in the middle of each comparison, after which share of it.
KILLS = ((0.15, "background"), (0.4, "web"), (0.65, "valkey"))
#: Different accounts. The others are copies of them.
_TEMPLATES = 100
#: Seconds after which the proxy cuts a connection on which nothing comes.
_SILENCE = 60
#: Seconds until something is over that does not depend on the size.
_PATIENCE = 120

_COPY = """
    INSERT INTO account_import_process
        (import_supplier_id, external_account_number, payload, payload_sha256, rules_version, profile)
    SELECT import_supplier_id, number::text,
           payload || jsonb_build_object('external_account_number', number::text), payload_sha256,
           rules_version, profile
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS number
    JOIN (SELECT *, row_number() OVER () - 1 AS place FROM account_import_process
          WHERE import_supplier_id = (SELECT id FROM import_supplier WHERE code = %(code)s)) AS template
      ON template.place = number %% %(templates)s
"""
_DIFFER = """
    CREATE FUNCTION proof_differ() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      NEW.billing_postcode := '0000 XX';
      RETURN NEW;
    END $$;
    CREATE TRIGGER proof_differ BEFORE INSERT ON account FOR EACH ROW
      WHEN (NEW.external_account_number = '{number}') EXECUTE FUNCTION proof_differ();
"""
_RUNNING = """
    SELECT done, items FROM comparison JOIN import_supplier AS supplier ON supplier.id = import_supplier_id
    WHERE code = %s AND finished_at IS NULL
"""


@dataclass(slots=True)
class Proof:
    """What one way has said, and how."""

    way: str
    differing: int
    open: int
    compared: int
    seconds: float
    killed: list[str] = field(default_factory=list)
    #: How many kills came too late.
    missed: int = 0
    #: The most seconds that a request through the proxy had to wait for the beginning of its answer.
    silent: float = 0.0


class Killer(threading.Thread):
    """Kills programs in the middle of the comparison that is being made. Use it in a `with` statement."""

    def __init__(self, scene: Scene, kills: Sequence[tuple[float, str]]) -> None:
        super().__init__(name="killer", daemon=True)
        self._scene, self._kills = scene, kills
        self._over = threading.Event()
        self.killed: list[str] = []

    def __enter__(self) -> "Killer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        waiting = list(self._kills)
        while waiting and not self._over.wait(0.05):
            with suppress(psycopg.Error):
                for done, items in self._scene.query(_RUNNING, SUPPLIER):
                    share, name = waiting[0]
                    if done and done >= share * items:
                        waiting.pop(0)
                        self._scene.kill(name)
                        self.killed.append(f"{name} at {done / items:.0%}")


class Proxy:
    """haproxy in front of the web server, which cuts a connection after `_SILENCE` seconds."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        assert HAPROXY, "haproxy is not installed: apt-get install haproxy"
        self.url = f"http://{LOOPBACK}:{random_free_port()}"
        self._log = folder / "haproxy.log"
        configuration = folder / "haproxy.cfg"
        configuration.write_text(
            f"global\n  log stdout format raw local0\n"
            f"defaults\n  mode http\n  log global\n  log-format 'ANSWER %Tr %ST %HU'\n  retries 0\n"
            f"  timeout connect 5s\n  timeout client {_SILENCE}s\n  timeout server {_SILENCE}s\n"
            f"listen service\n  bind {self.url.removeprefix('http://')}\n"
            f"  server web {scene.address.url.removeprefix('http://')}\n"
        )
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ending_with_us(HAPROXY, "-f", str(configuration)), stdout=log, stderr=subprocess.STDOUT
            )
        wait_until(lambda: is_answered(int(self.url.rpartition(":")[2])), "the proxy")

    def take_longest(self) -> float:
        """Return the longest time to the first byte of an answer since the last call, in seconds."""
        times = [int(it) for it in re.findall(r"^ANSWER (\d+) ", self._log.read_text(), re.MULTILINE)]
        with self._log.open("r+") as log:
            log.truncate(0)
        return max(times, default=0) / 1000

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)


def prove(
    scene: Scene,
    folder: Path,
    *,
    accounts: int,
    say: Callable[[str], None],
    kills: Sequence[Sequence[tuple[float, str]]] = (KILLS, KILLS, KILLS),
) -> list[Proof]:
    """Create a book of so many accounts as a wave, and reconcile it in three ways, each with its kills."""
    number = str(_TEMPLATES + accounts // 2)
    _stage(scene, accounts, number)
    say(f"{accounts} accounts are staged")
    proxy = Proxy(scene, folder)
    behind = replace(scene.address, url=proxy.url)
    direct, scene.addresses[0] = scene.addresses[0], behind
    try:
        proofs = []
        for way, its in zip((_as_a_wave, _by_the_client, _by_the_console), kills, strict=True):
            started = time.monotonic()
            with Killer(scene, its) as killer:
                proof = way(scene, folder)
            proof.seconds = time.monotonic() - started
            proof.killed, proof.silent = killer.killed, proxy.take_longest()
            proof.missed = len(its) - len(killer.killed)
            proofs.append(proof)
            say(str(proof))
        return proofs
    finally:
        scene.addresses[0] = direct
        proxy.stop()


def find_faults(proofs: list[Proof], accounts: int) -> list[str]:
    """Return what is not as it has to be."""
    said = {it.way: (it.differing, it.open, it.compared) for it in proofs}
    wrong = [f"{way}: {found}" for way, found in said.items() if found != (1, 0, accounts)]
    alive = [f"{it.way}: only {it.killed} was killed" for it in proofs if it.missed]
    return (
        wrong + alive + [f"{it.way}: silent for {it.silent} s" for it in proofs if it.silent > _SILENCE / 2]
    )


def _stage(scene: Scene, accounts: int, differing: str) -> None:
    with scene.session() as session:
        create_import_supplier(session, code=SUPPLIER, organisation_name="Drill")
    with scene.client() as client:
        for number, payload in enumerate(generate_accounts(_TEMPLATES, supplier=SUPPLIER, seed=1)):
            client.stage_account(payload | {"external_account_number": str(number)})
    with psycopg.connect(scene.settings["MIGRATION_SERVICE_OWNER_DATABASE_URL"]) as connection:
        values = {"first": _TEMPLATES, "last": accounts - 1, "templates": _TEMPLATES, "code": SUPPLIER}
        connection.execute(_COPY, values)
        connection.execute(_DIFFER.format(number=differing).encode())


def _as_a_wave(scene: Scene, _folder: Path) -> Proof:
    with scene.client() as client:
        waves = [{"rest": True}]
        plan = client.plan_waves(import_supplier=SUPPLIER, operations_team_name=TEAM, waves=waves)
        client.start_wave(plan.plan_id, 1)
        while (wave := client.get_plan(plan.plan_id).waves[0]).state not in ("CLEAN", "DIFFERS"):
            time.sleep(1)
        counts = client.get_batch(wave.batch_id).counts
    return Proof("wave", wave.differing or 0, wave.open or 0, counts["IMPORTED"], 0)


def _by_the_client(scene: Scene, folder: Path) -> Proof:
    done = subprocess.run(
        [sys.executable, "-m", "migration_service_client", "reconcile", SUPPLIER, "--full", "--json"],
        cwd=folder,
        env=environment_of(scene, folder),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done
    found = json.loads(done.stdout)
    return Proof("client", found["differing"], found["sent"]["open"], found["compared"], 0)


def _by_the_console(scene: Scene, _folder: Path) -> Proof:
    password = (scene.home / PASSWORD_FILE).read_text().strip()
    with requests.Session() as browser:
        browser.trust_env = False
        console = f"{scene.address.url}/console"
        fields = dict(_HIDDEN.findall(browser.get(f"{console}/login/", timeout=_PATIENCE).text))
        login = {**fields, "name": FIRST_OPERATOR, "password": password}
        assert browser.post(f"{console}/login/", data=login, timeout=_PATIENCE).ok
        page = f"{console}/suppliers/{SUPPLIER}/reconciliation/"
        query = "?compare=full"
        while True:
            with suppress(requests.RequestException):
                answer = browser.get(page + query, timeout=_PATIENCE)
                shown = text_of(answer.text)
                if answer.ok:
                    query = ""
                    if "accounts and lines have been compared." not in shown:
                        break
            time.sleep(1)
    numbers = re.search(r"sent (\S+) created (\S+) staged .*? acknowledged \S+ open (\S+)", shown)
    differing = re.search(r"(\S+) created accounts? differs?\.", shown)
    assert numbers, shown
    assert differing, shown
    sent, created, left = (int(it.replace(",", "")) for it in numbers.groups())
    assert sent == created, shown
    return Proof("console", int(differing[1].replace(",", "")), left, created, 0)


_HIDDEN = re.compile(r'<input[^>]*name="(csrf_token|next)"[^>]*value="([^"]*)"')


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--accounts", default=20_000, show_default=True, help="The size of the book.")
@click.option("--keep", is_flag=True, help="Keep the service's folder, with its log.")
def main(*, accounts: int, keep: bool) -> None:
    """Reconcile a book as a wave, by the client and by the console, while everything is killed."""
    console = Console(width=160)
    folder = temporary_folder()
    with Scene(folder) as scene:
        proofs = prove(scene, folder, accounts=accounts, say=console.print)
    table = Table(
        "way", "differing", "open", "compared", "seconds", "killed", "longest wait for an answer (s)"
    )
    for it in proofs:
        numbers = (it.differing, it.open, it.compared, round(it.seconds), ", ".join(it.killed), it.silent)
        table.add_row(it.way, *map(str, numbers))
    console.print(table)
    faults = find_faults(proofs, accounts)
    console.print("\n".join(faults) or "All three say the same.")
    if keep:
        console.print(f"kept: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
