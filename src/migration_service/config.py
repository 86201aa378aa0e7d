"""Every setting, and the only module that reads the environment.

A setting comes from its environment variable, or else from its default. `migration-service up` saves the
settings of its servers in `settings.json` in the home folder, so that other commands find them. That file is
used as a whole, and only if the environment names no server and no secret key: one command never connects to
servers of two services.
"""

import json
import os
import pwd
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

#: If the environment has any of these, nothing is read from `settings.json`.
CONNECTION_VARIABLES = ("DATABASE_URL", "REDIS_URL", "MIGRATION_SERVICE_SECRET_KEY")


class SettingsError(Exception):
    """A setting is missing or invalid. The message names the variable."""


def home_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder in which the embedded servers keep their data (`MIGRATION_SERVICE_HOME`).

    The default is the system's folder for such data for root, and the user's data folder for others.
    """
    if chosen := environ.get("MIGRATION_SERVICE_HOME"):
        return Path(chosen).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/migration-service")
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support/migration-service"
    return Path(environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "migration-service"


def _setting(env: str, help_text: str, default: Any = MISSING) -> Any:
    return field(default=default, metadata={"env": env, "help": help_text})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one process. The composition roots and the commands read them once."""

    home: Path = _setting("MIGRATION_SERVICE_HOME", "The folder of the embedded servers' data.")
    database_url: str = _setting("DATABASE_URL", "PostgreSQL, as postgresql://user:password@host:port/name.")
    owner_database_url: str = _setting(
        "MIGRATION_SERVICE_OWNER_DATABASE_URL",
        "The same database, as the role that owns the tables, for `revisions upgrade`. It grants the role of "
        "DATABASE_URL what that needs. Empty: the role of DATABASE_URL owns the tables itself.",
        "",
    )
    redis_url: str = _setting("REDIS_URL", "Redis or Valkey, as redis://:password@host:port/0.")
    secret_key: str = _setting(
        "MIGRATION_SERVICE_SECRET_KEY",
        "The key that signs the tokens: at least 32 characters, the same for all web processes.",
    )
    accepted_secret_keys: str = _setting(
        "MIGRATION_SERVICE_ACCEPTED_SECRET_KEYS",
        "Further keys whose tokens are accepted, with commas between: the next MIGRATION_SERVICE_SECRET_KEY "
        "before it is used, and the last one until its refresh tokens have expired.",
        "",
    )
    process_wait_seconds: float = _setting(
        "MIGRATION_SERVICE_PROCESS_WAIT_SECONDS",
        "Seconds that the process endpoint waits for the outcome before it answers 202 or 429.",
        25.0,
    )
    max_body_bytes: int = _setting(
        "MIGRATION_SERVICE_MAX_BODY_BYTES",
        "The largest request body in bytes. A larger one is answered with 413.",
        8_000_000,
    )
    request_seconds: float = _setting(
        "MIGRATION_SERVICE_REQUEST_SECONDS",
        "Seconds that a client has to send a request, plus one second for each 10 kB that it has sent.",
        20.0,
    )
    max_batch_bytes: int = _setting(
        "MIGRATION_SERVICE_MAX_BATCH_BYTES",
        "The largest file of a batch, in bytes after decompression. A larger one is answered with 413.",
        16_000_000_000,
    )
    max_batch_lines: int = _setting(
        "MIGRATION_SERVICE_MAX_BATCH_LINES",
        "The most lines of a file of a batch. A file with more is answered with 413.",
        2_000_000,
    )
    max_batch_ratio: int = _setting(
        "MIGRATION_SERVICE_MAX_BATCH_RATIO",
        "How many times larger the file of a batch may be after decompression. Beyond it: 413.",
        200,
    )
    max_uploads: int = _setting(
        "MIGRATION_SERVICE_MAX_UPLOADS",
        "How many files of batches an organisation may send at once. Beyond it: 429.",
        4,
    )
    max_open_batches: int = _setting(
        "MIGRATION_SERVICE_MAX_OPEN_BATCHES",
        "How many batches of an organisation may be under way or paused at once. Beyond it: 429.",
        100,
    )
    max_batch_storage_bytes: int = _setting(
        "MIGRATION_SERVICE_MAX_BATCH_STORAGE_BYTES",
        "How many bytes the lines of an organisation's batches may take in the database, 200 added for each "
        "line. Beyond it: 429.",
        64_000_000_000,
    )
    max_staged_accounts: int = _setting(
        "MIGRATION_SERVICE_MAX_STAGED_ACCOUNTS",
        "How many accounts of an organisation may be staged and not created. Beyond it no further account is "
        "staged: 429.",
        10_000_000,
    )
    max_sessions: int = _setting(
        "MIGRATION_SERVICE_MAX_SESSIONS",
        "How many sessions of an API key may be open. Beyond it the oldest ones end.",
        10_000,
    )
    upload_folder: str = _setting(
        "MIGRATION_SERVICE_UPLOAD_FOLDER",
        "The folder that holds files of batches until they have arrived. Empty: the system's folder for "
        "temporary files.",
        "",
    )
    line_processor_seconds: float = _setting(
        "MIGRATION_SERVICE_LINE_PROCESSOR_SECONDS",
        "Seconds of processor time that the validation of one line of a batch may take. 0: without limit.",
        5.0,
    )
    deferral_hours: int = _setting(
        "MIGRATION_SERVICE_DEFERRAL_HOURS",
        "Hours that a line of added data waits for an account that is being created or is in a batch that is "
        "not over. Then it fails with account_not_found.",
        168,
    )
    processor_share: int = _setting(
        "MIGRATION_SERVICE_PROCESSOR_SHARE",
        "Per cent of a web process's time for the expensive requests of the organisation that uses the "
        "most, while others send requests, too. If each of its requests takes less than 20 ms, it has 75. "
        "Beyond it its requests wait; after 5 seconds they are refused: 429. 100: no limit.",
        10,
    )
    batch_slot_reserve: int = _setting(
        "MIGRATION_SERVICE_BATCH_SLOT_RESERVE",
        "How many slots of the concurrency limit batches leave free for requests.",
        50,
    )
    batch_chunks_in_flight: int = _setting(
        "MIGRATION_SERVICE_BATCH_CHUNKS_IN_FLIGHT",
        "Messages that the batches of an organisation have in the queue: at least twice the batch worker "
        "processes.",
        8,
    )
    batch_retention_days: int = _setting(
        "MIGRATION_SERVICE_BATCH_RETENTION_DAYS",
        "Days that the lines and results of a batch are kept after its end: at least 30.",
        30,
    )
    batch_idle_days: int = _setting(
        "MIGRATION_SERVICE_BATCH_IDLE_DAYS",
        "Days after which a batch that is paused, or waits for its supplier, is cancelled, so that its lines "
        "are removed too. 0: never.",
        90,
    )
    audit_retention_days: int = _setting(
        "MIGRATION_SERVICE_AUDIT_RETENTION_DAYS",
        "Days that audit entries are kept; at least 90. The hashes of the days are kept for ever.",
        730,
    )
    payload_retention_days: int = _setting(
        "MIGRATION_SERVICE_PAYLOAD_RETENTION_DAYS",
        "Days that the staged payload of an account is kept after the account was created. 0: without limit.",
        180,
    )
    staged_retention_days: int = _setting(
        "MIGRATION_SERVICE_STAGED_RETENTION_DAYS",
        "Days that an account that was staged and never created is kept after it was last staged. "
        "0: without limit.",
        180,
    )
    error_retention_days: int = _setting(
        "MIGRATION_SERVICE_ERROR_RETENTION_DAYS",
        "Days that the texts of errors of attempts and of customer e-mails are kept. Their codes stay. "
        "0: without limit.",
        90,
    )
    token_lifetime_seconds: int = _setting(
        "MIGRATION_SERVICE_TOKEN_LIFETIME_SECONDS", "Seconds that an access token is valid.", 3600
    )
    refresh_token_lifetime_seconds: int = _setting(
        "MIGRATION_SERVICE_REFRESH_TOKEN_LIFETIME_SECONDS",
        "Seconds that a refresh token is valid.",
        7 * 24 * 3600,
    )
    database_pool_size: int = _setting(
        "MIGRATION_SERVICE_DATABASE_POOL_SIZE", "Connections that one web process keeps to PostgreSQL.", 10
    )
    database_pooler: bool = _setting(
        "MIGRATION_SERVICE_DATABASE_POOLER",
        "on, if DATABASE_URL is a pgbouncer in transaction mode. No connection then keeps any state.",
        False,
    )
    reference_lease_seconds: float = _setting(
        "MIGRATION_SERVICE_REFERENCE_LEASE_SECONDS",
        "Seconds for which a web process may use API keys, sessions and import suppliers from memory without "
        "another proof that nothing has changed: at most 1. Revoking a key takes as long. The same for every "
        "process. 0: they are looked up in each request.",
        1.0,
    )
    broker_url: str = _setting(
        "MIGRATION_SERVICE_BROKER_URL",
        "The broker of the queues, if it is not REDIS_URL: any that Celery supports, "
        "for example amqp://user:password@host:5672// or sentinel://host:26379/0.",
        "",
    )
    broker_options: str = _setting(
        "MIGRATION_SERVICE_BROKER_OPTIONS",
        'More options of the broker\'s transport, as a JSON object, for example {"master_name": "main"}.',
        "{}",
    )
    broker_visibility_timeout: int = _setting(
        "MIGRATION_SERVICE_BROKER_VISIBILITY_TIMEOUT",
        "Seconds after which an unacknowledged message is redelivered.",
        180,
    )
    smtp_url: str = _setting(
        "MIGRATION_SERVICE_SMTP_URL",
        "The mail server, as smtp://user:password@host:587?starttls=1 or smtps://host:465. "
        "Empty: no e-mail is sent.",
        "",
    )
    email_from: str = _setting(
        "MIGRATION_SERVICE_EMAIL_FROM", "The sender of the customer e-mails, as Name <address>.", ""
    )
    log_level: str = _setting("MIGRATION_SERVICE_LOG_LEVEL", "DEBUG, INFO, WARNING or ERROR.", "INFO")
    log_format: str = _setting(
        "MIGRATION_SERVICE_LOG_FORMAT",
        "json, text, or auto: text on a terminal and json elsewhere.",
        "auto",
    )
    metrics_token: str = _setting(
        "MIGRATION_SERVICE_METRICS_TOKEN",
        "The bearer token that /metrics requires. Empty: only requests from this machine are answered.",
        "",
    )
    trusted_proxies: int = _setting(
        "MIGRATION_SERVICE_TRUSTED_PROXIES",
        "The number of your own proxies in front of the service that add the client's address to "
        "X-Forwarded-For. 0: none, and the header is ignored.",
        0,
    )
    allowed_hosts: str = _setting(
        "MIGRATION_SERVICE_ALLOWED_HOSTS",
        "Host names that requests may name in their Host header, separated by commas; another one gets 400. "
        "Empty: any, which is right for a service on loopback.",
        "",
    )
    console: bool = _setting(
        "MIGRATION_SERVICE_CONSOLE", "on: operators can log in to the console at /console/.", False
    )
    console_url: str = _setting(
        "MIGRATION_SERVICE_CONSOLE_URL",
        "The address of the console in a browser, as https://migration.example.com/console/. With https, its "
        "cookie is only sent encrypted. OpenID Connect returns to it. Empty: what the browser asks for.",
        "",
    )
    console_idle_minutes: int = _setting(
        "MIGRATION_SERVICE_CONSOLE_IDLE_MINUTES",
        "Minutes after which an operator who does nothing in the console has to log in again.",
        60,
    )
    console_session_hours: int = _setting(
        "MIGRATION_SERVICE_CONSOLE_SESSION_HOURS",
        "Hours after which an operator has to log in to the console again in any case.",
        12,
    )
    console_time_zone: str = _setting(
        "MIGRATION_SERVICE_CONSOLE_TIME_ZONE",
        "The time zone of the times in the console, for browsers without script.",
        "Europe/Amsterdam",
    )
    openid_issuer: str = _setting(
        "MIGRATION_SERVICE_OPENID_ISSUER",
        "The OpenID Connect provider with which operators log in, as https://login.example.com. Empty: none.",
        "",
    )
    openid_client_id: str = _setting(
        "MIGRATION_SERVICE_OPENID_CLIENT_ID", "What the provider calls this service.", ""
    )
    openid_client_secret: str = _setting(
        "MIGRATION_SERVICE_OPENID_CLIENT_SECRET", "The secret that the provider gave this service.", ""
    )
    openid_claim: str = _setting(
        "MIGRATION_SERVICE_OPENID_CLAIM",
        "The claim that has the name of the operator. If it is email, the provider must say that it is "
        "verified.",
        "email",
    )
    flower_url: str = _setting("FLOWER_URL", "The address of Flower, to which the console links.", "")
    grafana_url: str = _setting(
        "MIGRATION_SERVICE_GRAFANA_URL", "The address of the dashboard, to which the console links.", ""
    )
    heartbeat_file: str = _setting(
        "MIGRATION_SERVICE_HEARTBEAT_FILE",
        "A file that workers and beat touch while they are alive, for health checks. Empty: none.",
        "",
    )
    traces_endpoint: str = _setting(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "The address that OpenTelemetry traces are sent to, as http://host:4318. Empty: no traces.",
        "",
    )

    metrics_folder: str = _setting(
        "PROMETHEUS_MULTIPROC_DIR",
        "The folder in which the processes of a web server share their metrics. Empty: "
        "gunicorn.conf.py makes one.",
        "",
    )

    @property
    def token_keys(self) -> tuple[str, ...]:
        """The keys whose tokens are accepted; the first one signs."""
        others = (key.strip() for key in self.accepted_secret_keys.split(","))
        return (self.secret_key, *(key for key in others if key))

    @classmethod
    def from_env(
        cls, environ: Mapping[str, str] = os.environ, *, without: Collection[str] = ()
    ) -> "Settings":
        """Read every setting. Raise SettingsError naming the variable that is missing or invalid.

        `without` names settings that this process has no use for, so that it need not know secrets: they
        are empty.
        """
        home = home_folder(environ)
        given = [variable for variable in CONNECTION_VARIABLES if environ.get(variable)]
        saved = {} if given else load_saved_settings(home)
        values: dict[str, Any] = {"home": home}
        for setting in fields(cls):
            if setting.name == "home":
                continue
            env = setting.metadata["env"]
            if setting.name in without:
                values[setting.name] = ""
                continue
            text = environ.get(env) or saved.get(env)
            if text is not None:
                values[setting.name] = _convert(env, text, setting.type)
            elif setting.default is MISSING:
                raise SettingsError(_missing(env, home, given, saved))
        settings = cls(**values)
        settings._check(without)
        return settings

    def _check(self, without: Collection[str]) -> None:
        if self.log_format not in ("json", "text", "auto"):
            raise SettingsError(
                f"MIGRATION_SERVICE_LOG_FORMAT must be json, text or auto, not {self.log_format!r}."
            )
        if "secret_key" not in without and len(self.secret_key) < 32:
            raise SettingsError(
                f"MIGRATION_SERVICE_SECRET_KEY has {len(self.secret_key)} characters. "
                "It must have at least 32."
            )
        if any(len(key) < 32 for key in self.token_keys[1:]):
            raise SettingsError(
                "MIGRATION_SERVICE_ACCEPTED_SECRET_KEYS has a key with fewer than 32 characters."
            )
        if self.audit_retention_days < 90:
            raise SettingsError(
                f"MIGRATION_SERVICE_AUDIT_RETENTION_DAYS must be 90 or more, not {self.audit_retention_days}."
            )
        if self.batch_retention_days < 30:
            raise SettingsError(
                f"MIGRATION_SERVICE_BATCH_RETENTION_DAYS must be 30 or more, not {self.batch_retention_days}."
            )
        if not 0 <= self.reference_lease_seconds <= 1:
            raise SettingsError(
                "MIGRATION_SERVICE_REFERENCE_LEASE_SECONDS must be from 0 to 1, "
                f"not {self.reference_lease_seconds}."
            )
        self._check_shares()
        self._check_console()
        for setting in ("batch_idle", "payload_retention", "staged_retention", "error_retention"):
            if (days := getattr(self, f"{setting}_days")) < 0:
                raise SettingsError(
                    f"MIGRATION_SERVICE_{setting.upper()}_DAYS must be 0 or more, not {days}."
                )
        if self.trusted_proxies < 0:
            raise SettingsError(
                f"MIGRATION_SERVICE_TRUSTED_PROXIES must be 0 or more, not {self.trusted_proxies}."
            )

    def _check_shares(self) -> None:
        if not 1 <= self.processor_share <= 100:
            raise SettingsError(
                f"MIGRATION_SERVICE_PROCESSOR_SHARE must be from 1 to 100, not {self.processor_share}."
            )
        for setting in ("max_staged_accounts", "max_sessions"):
            if (value := getattr(self, setting)) < 1:
                raise SettingsError(f"MIGRATION_SERVICE_{setting.upper()} must be 1 or more, not {value}.")

    def _check_console(self) -> None:
        for setting in ("console_idle_minutes", "console_session_hours"):
            if (value := getattr(self, setting)) < 1:
                raise SettingsError(f"MIGRATION_SERVICE_{setting.upper()} must be 1 or more, not {value}.")
        if self.openid_issuer and not (self.openid_client_id and self.openid_client_secret):
            raise SettingsError(
                "MIGRATION_SERVICE_OPENID_ISSUER needs MIGRATION_SERVICE_OPENID_CLIENT_ID and "
                "MIGRATION_SERVICE_OPENID_CLIENT_SECRET."
            )


def _missing(variable: str, home: Path, given: Sequence[str], saved: Mapping[str, str]) -> str:
    """Return a message that says which source was used, and what to do."""
    if given:
        verb = "comes" if len(given) == 1 else "come"
        return (
            f"{variable} is not set. {' and '.join(given)} {verb} from the environment, "
            f"so nothing is read from {home / 'settings.json'}. "
            f"Set {', '.join(CONNECTION_VARIABLES)}, or none of them."
        )
    if saved:
        return f"{variable} is neither set nor in {home / 'settings.json'}. Restart `migration-service up`."
    return (
        f"{variable} is not set, and no running service was found in {home}. "
        "Start one with `migration-service up`, or set the variable."
    )


def system_user(environ: Mapping[str, str] = os.environ) -> str:
    """Return the account on this machine that runs a command, and on whose behalf, if sudo says so."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run under a number that has no name
        name = str(os.geteuid())
    behalf = environ.get("SUDO_USER")
    return f"{name} (sudo: {behalf})" if behalf else name


def is_setting(variable: str) -> bool:
    """Return whether the service itself is set up with this environment variable."""
    known = {setting.metadata["env"] for setting in fields(Settings)}
    return variable in known or variable.startswith("MIGRATION_SERVICE_")


def read_secret(variable: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the secret in an environment variable that an operator named (`vendors create --secret-env`).

    Raise SettingsError if the variable is missing, or if its value cannot be sent in an HTTP header because
    it has anything but visible ASCII characters. A line break at the end is a common cause. The message names
    the variable, never its value.
    """
    secret = environ.get(variable, "")
    if not secret:
        raise SettingsError(f"{variable} is not set.")
    if not all("!" <= character <= "~" for character in secret):
        raise SettingsError(
            f"{variable} must hold visible ASCII characters only, without spaces or line breaks."
        )
    return secret


def load_saved_settings(home: Path) -> dict[str, str]:
    """Return what `up` saved in the home folder, by variable name; empty if it has never run there."""
    file = home / "settings.json"
    try:
        saved: dict[str, str] = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except PermissionError as error:
        raise SettingsError(
            f"This user may not read {file}. Run the command as the user who started the service."
        ) from error
    except ValueError as error:
        raise SettingsError(f"{file} is damaged. Restart `migration-service up`.") from error
    return saved


_KIND_NAMES = {int: "a whole number", float: "a number"}
_SWITCH = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}


def _convert(env: str, text: str, kind: Any) -> Any:
    if kind is bool:
        if text.lower() not in _SWITCH:
            raise SettingsError(f"{env} must be on or off, not {text!r}.")
        return _SWITCH[text.lower()]
    try:
        return kind(text)
    except ValueError as error:
        raise SettingsError(f"{env} must be {_KIND_NAMES[kind]}, not {text!r}.") from error
