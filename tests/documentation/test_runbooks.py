"""The runbooks: SQL works for the role that is to run it, and each install has the parts that they name.

What they say for hosts is run in a Debian by `make install-check`.
"""

import re

import psycopg
import pytest
import yaml
from psycopg.errors import InsufficientPrivilege

from documentation.pages import ROOT
from migration_service.config import Settings
from migration_service.tasks.names import QUEUES
from support.servers import EmbeddedServers

PAGE = (ROOT / "docs/operators/runbooks.md").read_text()
_PSQL = re.compile(r"""(psql "\$DATABASE_URL"|sudo -u postgres psql)((?: -c (?:'[^']*'|"[^"]*"))+)""")
_SERVICE, _SUPERUSER = 'psql "$DATABASE_URL"', "sudo -u postgres psql"
_UNITS = ROOT / "deployment/systemd"


def _statements(role: str) -> list[str]:
    texts = [options for named, options in _PSQL.findall(PAGE) if named == role]
    return [text[1:-1] for options in texts for text in re.findall(r"""'[^']*'|"[^"]*\"""", options)]


def test_each_statement_works_for_the_role_that_is_said_and_needs_it(
    migrated: Settings, embedded_servers: EmbeddedServers
) -> None:
    assert len(re.findall(r"\bpsql\b.* -c ", PAGE)) == len(_PSQL.findall(PAGE)), "all are found"
    with (
        psycopg.connect(migrated.database_url, autocommit=True) as service,
        embedded_servers.connect_as_superuser() as superuser,
    ):
        for statement in (reading := _statements(_SERVICE)):
            service.execute(statement.encode())
        for statement in (changing := _statements(_SUPERUSER)):
            # A session of another role holds the events up.
            with psycopg.connect(embedded_servers.owner_url) as other:
                exact = statement.replace("PID", str(other.info.backend_pid)).encode()
                with pytest.raises(InsufficientPrivilege):
                    service.execute(exact)
                superuser.execute(exact)
        superuser.execute("ALTER SYSTEM RESET synchronous_standby_names")
    assert len(reading) >= 5
    assert len(changing) >= 3


def _named(pattern: str) -> set[str]:
    """Return the parts that the page names in commands. QUEUE stands for each queue."""
    found = {name for names in re.findall(pattern, PAGE) for name in names.split()}
    return {it.replace("QUEUE", queue) for it in found for queue in QUEUES} - {"UNIT", "SERVICE", "POD"}


def test_each_install_has_the_parts_that_the_page_names() -> None:
    units = {it.stem.partition("@")[0] for it in _UNITS.glob("migration-service*") if it.is_file()}
    named = _named(r"systemctl (?:restart|start|status|kill -s KILL) (migration-service[\w@-]*)")
    assert {it.partition("@")[0] for it in named} <= units
    services = set(yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"])
    assert _named(r"docker-compose (?:restart|exec|kill) ([\w-]+)") - services == {"worker-interactive"}
    assert "`worker` for `interactive`" in PAGE
    manifests = "".join(it.read_text() for it in (ROOT / "deployment/kubernetes/base").glob("*.yaml"))
    deployments = set(re.findall(r"kind: Deployment\nmetadata:\n  name: ([\w-]+)", manifests))
    assert _named(r"deploy(?:ment)?/([\w-]+)") <= deployments
