"""`python -m failover`: exits with 1 if anything was lost, doubled or wrong, or took longer than its goal."""

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from failover.inside import OUTCOMES, Plan
from failover.namespaces import inside
from failover.report import rows_of, show
from failover.run import Outcome
from failover.scenarios import SCENARIOS
from support.servers import temporary_folder
from support.web_servers import ROOT

#: Programs, and Debian's packages with them.
_NEEDED = {
    "etcd": "etcd-server",
    "haproxy": "haproxy",
    "ethtool": "ethtool",
    "ip": "iproute2",
    "pgbouncer": "pgbouncer",
}
_KEPT = ROOT / ".make" / "failover"
#: The scenarios of `make night`.
_SHORT = ("switch-over on request", "primary: process killed", "Sentinel: master killed")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", default=1, show_default=True, help="How often each scenario is run.")
@click.option("--only", multiple=True, metavar="TEXT", help="Only scenarios whose names begin like this.")
@click.option("--short", is_flag=True, help="Only three scenarios, as every night.")
@click.option("--goals", is_flag=True, help="Only scenarios that have a goal.")
@click.option("--pooler", is_flag=True, help="Reach PostgreSQL through pgbouncer and HAProxy.")
@click.option(
    "--patroni", type=click.Path(path_type=Path), required=True, help="The Python that has Patroni."
)
@click.option("--keep", is_flag=True, help="Keep the folder of all servers, with their logs.")
def main(
    *,
    rounds: int,
    only: tuple[str, ...],
    short: bool,
    goals: bool,
    pooler: bool,
    patroni: Path,
    keep: bool,
) -> None:
    """Let servers, hosts and networks fail under load, and count what was lost."""
    needed = [name for name in _NEEDED if pooler or name != "pgbouncer"]
    if missing := [_NEEDED[name] for name in needed if not shutil.which(name)]:
        raise click.ClickException(f"Install what is missing: apt-get install {' '.join(missing)}")
    names = [
        name
        for name, scenario in SCENARIOS.items()
        if (not only or name.startswith(only))
        and (not short or name in _SHORT)
        and (not goals or scenario.goals)
    ]
    if not names:
        raise click.ClickException(f"No scenario begins like that: {', '.join(SCENARIOS)}")
    console = Console(width=180, highlight=False)
    # Ended like this, too, it removes its folder.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    _KEPT.mkdir(parents=True, exist_ok=True)
    results, ended_badly = "", False
    for synchronous in (True, False):
        folder = temporary_folder()
        (folder / OUTCOMES).touch()
        plan = Plan(
            folder=str(folder),
            patroni=str(patroni.absolute()),
            names=names * rounds,
            synchronous=synchronous,
            pooler=pooler,
        )
        try:
            done = subprocess.run(inside("failover.inside", json.dumps(asdict(plan))), check=False)
            ended_badly |= bool(done.returncode)
        finally:
            results += (folder / OUTCOMES).read_text()
            (_KEPT / OUTCOMES).write_text(results)
            if keep:
                console.print(f"The folder of the servers: {folder}")
            else:
                shutil.rmtree(folder, ignore_errors=True)
    rows = rows_of(Outcome(**json.loads(line)) for line in results.splitlines())
    sys.exit(0 if show(rows, console) and not ended_badly else 1)


if __name__ == "__main__":
    main()
