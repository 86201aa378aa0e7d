"""pgbouncer, and an HAProxy that knows the primary: as the pages for operators have them."""

import re

import psycopg

from failover.cluster import SECRET, Cluster
from failover.namespaces import Network
from migration_service_local.servers.account import ServerAccount
from migration_service_local.servers.postgres import DATABASE
from support.servers import wait_until
from support.web_servers import ROOT

_PORT = 6432
_PAGES = ROOT / "docs/operators"


class Pooler:
    """A host between the service and the servers of PostgreSQL."""

    def __init__(self, network: Network, cluster: Cluster) -> None:
        self._host = host = network.add("pooler")
        with psycopg.connect(cluster.url("postgres"), autocommit=True) as connection:
            connection.execute(_block("scaling.md", "ALTER ROLE").encode())
        servers = "".join(
            f"    server {it.name} {it.address}:5432 check port 8008\n" for it in cluster.members.values()
        )
        proxy = re.sub(
            r"(?:^ +server .*\n)+", servers, _block("install.md", "listen postgresql"), flags=re.MULTILINE
        )
        (host.folder / "haproxy.cfg").write_text(proxy)
        host.run("/usr/sbin/haproxy", "-db", "-f", str(host.folder / "haproxy.cfg"))
        users = host.folder / "userlist.txt"
        users.write_text(f'"{DATABASE}" "{SECRET}"\n')
        pooler = _block("scaling.md", "[pgbouncer]")
        pooler = re.sub(r"^migration = host=\S+", f"{DATABASE} = host=127.0.0.1", pooler, flags=re.MULTILINE)
        pooler = re.sub(r"^auth_file = .*", f"auth_file = {users}", pooler, flags=re.MULTILINE)
        listens = f"listen_addr = {host.address}\nlisten_port = {_PORT}\n"
        (host.folder / "pgbouncer.ini").write_text(pooler + listens)
        host.run("pgbouncer", str(host.folder / "pgbouncer.ini"), account=ServerAccount.choose())
        wait_until(self._answers, "pgbouncer answers")

    @property
    def url(self) -> str:
        """Return the address for the service."""
        return f"postgresql://{DATABASE}:{SECRET}@{self._host.address}:{_PORT}/{DATABASE}"

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


def _block(page: str, text: str) -> str:
    """Return the block of a page that has this text."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", (_PAGES / page).read_text(), re.DOTALL | re.MULTILINE)
    (found,) = (it for it in blocks if text in it)
    return str(found)
