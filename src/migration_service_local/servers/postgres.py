"""The embedded PostgreSQL: its data folder, its start, and its database.

It listens on the loopback address only, and every user needs a password. One role owns the tables, and is
used for revisions only. The service uses another role, which can change rows but not tables.
"""

import os
import re
import secrets
import shutil
import signal

import psycopg
from psycopg import sql

from migration_service_local.errors import StartError
from migration_service_local.servers.binaries import find_postgres
from migration_service_local.servers.home import Home
from migration_service_local.servers.orphans import stop_orphans
from migration_service_local.servers.ports import LOOPBACK
from migration_service_local.servers.process import Program

#: The database, and the role of the service.
DATABASE = "migration_service"
#: The role that owns the tables.
OWNER = "migration_service_owner"
_SUPERUSER = "postgres"
# The first versions of PostgreSQL with built-in locales, and with a setting for password iterations.
_PROVIDER_SINCE, _ROUNDS_SINCE = 17, 160_000

_ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath}

_CONFIGURATION = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "200",
    # For batches: a checkpoint every few minutes instead of every few hundred thousand rows.
    "max_wal_size": "2GB",
    "log_checkpoints": "off",
    "log_line_prefix": "",
    # Its log has no row values, which it would repeat in errors, DETAIL, CONTEXT and STATEMENT. The service
    # logs the kind of each error itself.
    "log_min_messages": "log",
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
}

_UNSAFE_AND_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Postgres:
    """The PostgreSQL server of a home folder.

    With `durable=False`, for tests, it is faster but may lose its data.
    """

    def __init__(self, home: Home, *, durable: bool = True) -> None:
        self._home = home
        self._durable = durable
        self._folder = home.server_folder("postgres")
        self._binary = find_postgres(home.account, home.path / "runtime")
        self.data = self._folder / "data"
        self.port = home.port("postgres")

    @property
    def url(self) -> str:
        """Return the address of the service's database, with the password of its role."""
        return self._url(DATABASE, self._home.secret("database_password"), DATABASE)

    @property
    def owner_url(self) -> str:
        """Return the address of the same database for the role that owns it, for revisions."""
        return self._url(OWNER, self._home.secret("database_owner_password"), DATABASE)

    def program(self) -> Program:
        """Return how the server is run. Create its data folder on the first start."""
        self._make_data_folder()
        options = _CONFIGURATION | {"port": str(self.port)} | ({} if self._durable else _UNSAFE_AND_FAST)
        return Program(
            name="postgres",
            arguments=[
                str(self._binary),
                *("-D", str(self.data)),
                *(part for name, value in options.items() for part in ("-c", f"{name}={value}")),
            ],
            environment=_ENVIRONMENT,
            folder=self.data,
            # SIGINT ends the sessions and shuts down. SIGTERM would wait until every client disconnects.
            stop=((signal.SIGINT, 30), (signal.SIGQUIT, 5)),
            death_signal=signal.SIGINT,
            account=self._home.account,
            before_start=self._clear_the_way,
        )

    def is_ready(self) -> bool:
        """Return True if it accepts connections. It does not while it replays its log after a crash.

        Raise StartError if it refuses the password of the home folder.
        """
        try:
            self.connect_as_superuser().close()
        except psycopg.OperationalError as error:
            if "password authentication failed" in str(error):
                raise StartError(
                    f"PostgreSQL in {self.data} refuses the password in {self._home.path / 'secrets.json'}: "
                    "one of the two was replaced."
                ) from error
            return False
        return True

    def make_database(self) -> None:
        """Create the roles and the database if they do not exist, even after an interrupted first start."""
        with self.connect_as_superuser() as connection:
            # The passwords are random: thousands of iterations would protect nothing, and take half of the
            # time to connect.
            if connection.info.server_version >= _ROUNDS_SINCE:
                connection.execute("SET scram_iterations = 1")
            for role, secret in ((DATABASE, "database_password"), (OWNER, "database_owner_password")):
                if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                    create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
                    password = sql.Literal(self._home.secret(secret))
                    connection.execute(create.format(sql.Identifier(role), password))
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                create = sql.SQL("CREATE DATABASE {} OWNER {}")
                connection.execute(create.format(sql.Identifier(DATABASE), sql.Identifier(OWNER)))

    def connect_as_superuser(self, database: str = "postgres") -> psycopg.Connection:
        """Open a connection of the superuser, in autocommit mode."""
        url = self._url(_SUPERUSER, self._home.secret("postgres_password"), database)
        return psycopg.connect(url, autocommit=True, connect_timeout=5)

    def _url(self, role: str, password: str, database: str) -> str:
        return f"postgresql://{role}:{password}@{LOOPBACK}:{self.port}/{database}"

    def _make_data_folder(self) -> None:
        """Run initdb in a temporary folder, because it may be interrupted, then move that into place."""
        if self.data.exists():
            return
        for leftover in self._folder.glob("unfinished-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        # The name is new each time, because an initdb whose parent was killed may still be writing.
        unfinished = self._folder / f"unfinished-{secrets.token_hex(4)}"
        password_file = self._folder / "password"
        password_file.touch(mode=0o600)
        self._home.account.own(password_file, 0o600)
        try:
            password_file.write_text(self._home.secret("postgres_password") + "\n")
            initdb = self._home.account.run(
                [
                    str(self._binary.with_name("initdb")),
                    *("-D", str(unfinished), "-U", _SUPERUSER, "-E", "UTF8", "--auth=scram-sha-256"),
                    *(f"--pwfile={password_file}", *self._locale()),
                    *(() if self._durable else ("--no-sync",)),
                ],
                environment=_ENVIRONMENT,
            )
        finally:
            password_file.unlink()
        if initdb.returncode:
            raise StartError(f"PostgreSQL's initdb failed:\n{initdb.stderr.strip()}")
        unfinished.rename(self.data)

    def _locale(self) -> tuple[str, ...]:
        """Return options for the same sort order of texts on every machine, whatever locales it has."""
        version = self._home.account.run([str(self._binary), "--version"], environment=_ENVIRONMENT).stdout
        major = re.search(r"(\d+)", version)
        if major and int(major[1]) >= _PROVIDER_SINCE:
            return ("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C")
        return ("--locale=C",)

    def _clear_the_way(self) -> None:
        """Stop what is left of an earlier server, and change its pid file so that the server can start.

        The process id in that file may now belong to a zombie (if nothing reaps it) or to another program,
        and PostgreSQL would refuse to start. It ignores the id of its own parent, so that id is written
        instead. The rest of the file is kept, because PostgreSQL uses it to see whether old sessions still
        use the data.
        """
        stop_orphans(self.data, "postgres")
        pid_file = self.data / "postmaster.pid"
        try:
            _, _, rest = pid_file.read_text().partition("\n")
        except FileNotFoundError:
            return
        if rest:
            pid_file.write_text(f"{os.getpid()}\n{rest}")
        else:
            pid_file.unlink()
