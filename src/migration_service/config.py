"""Every setting, and the only place that reads the environment.

A setting comes from its environment variable; else from `settings.json` in the home folder, which
`migration-service up` writes so that other commands find its servers; else from its default.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any


class SettingsError(Exception):
    """A setting is missing or cannot be read; the message names the variable."""


def home_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the embedded servers keep their data (`MIGRATION_SERVICE_HOME`).

    By default the system's place for a root service and the user's data folder otherwise.
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
    """The settings of one process; made once by the composition roots and the commands."""

    home: Path = _setting("MIGRATION_SERVICE_HOME", "Folder of the embedded servers' data.")
    database_url: str = _setting("DATABASE_URL", "PostgreSQL, as postgresql://user:password@host:port/name.")
    redis_url: str = _setting("REDIS_URL", "Redis or Valkey, as redis://:password@host:port/0.")
    secret_key: str = _setting(
        "MIGRATION_SERVICE_SECRET_KEY",
        "Signs the tokens; at least 32 characters, the same for all web processes.",
    )
    accepted_secret_keys: str = _setting(
        "MIGRATION_SERVICE_ACCEPTED_SECRET_KEYS",
        "Further keys whose tokens are accepted, with commas between: the next MIGRATION_SERVICE_SECRET_KEY "
        "before it is used, and the last one until its refresh tokens have expired.",
        "",
    )
    process_wait_seconds: float = _setting(
        "MIGRATION_SERVICE_PROCESS_WAIT_SECONDS",
        "How long the process endpoint waits for the outcome before it answers 202 or 429.",
        25.0,
    )
    max_body_bytes: int = _setting(
        "MIGRATION_SERVICE_MAX_BODY_BYTES",
        "The largest request body that is read; a larger one gets 413.",
        8_000_000,
    )
    request_seconds: float = _setting(
        "MIGRATION_SERVICE_REQUEST_SECONDS",
        "Seconds that a client has for sending a request; another one for each 10 kB that it has sent.",
        20.0,
    )
    max_batch_bytes: int = _setting(
        "MIGRATION_SERVICE_MAX_BATCH_BYTES",
        "The largest file of a batch, in bytes after decompression; a larger one gets 413.",
        64_000_000_000,
    )
    batch_slot_reserve: int = _setting(
        "MIGRATION_SERVICE_BATCH_SLOT_RESERVE",
        "How many of the places under the concurrency limit batches leave to requests.",
        50,
    )
    batch_chunks_in_flight: int = _setting(
        "MIGRATION_SERVICE_BATCH_CHUNKS_IN_FLIGHT",
        "Messages that each running batch has in the queue; at least twice the batch worker processes.",
        8,
    )
    batch_retention_days: int = _setting(
        "MIGRATION_SERVICE_BATCH_RETENTION_DAYS",
        "Days after its end that the lines and results of a batch are kept; at least 30.",
        30,
    )
    audit_retention_days: int = _setting(
        "MIGRATION_SERVICE_AUDIT_RETENTION_DAYS",
        "Days that audit entries are kept; at least 90. The hashes of the days are kept for ever.",
        730,
    )
    payload_retention_days: int = _setting(
        "MIGRATION_SERVICE_PAYLOAD_RETENTION_DAYS",
        "Days that the staged payload of an imported account is kept; 0: for ever.",
        0,
    )
    token_lifetime_seconds: int = _setting(
        "MIGRATION_SERVICE_TOKEN_LIFETIME_SECONDS", "How long an access token holds.", 3600
    )
    refresh_token_lifetime_seconds: int = _setting(
        "MIGRATION_SERVICE_REFRESH_TOKEN_LIFETIME_SECONDS", "How long a refresh token holds.", 7 * 24 * 3600
    )
    database_pool_size: int = _setting(
        "MIGRATION_SERVICE_DATABASE_POOL_SIZE", "Connections that one web process keeps to PostgreSQL.", 10
    )
    database_pooler: bool = _setting(
        "MIGRATION_SERVICE_DATABASE_POOLER",
        "on: DATABASE_URL is a pgbouncer in transaction mode, so nothing may stay with a connection.",
        False,
    )
    broker_url: str = _setting(
        "MIGRATION_SERVICE_BROKER_URL",
        "The broker of the queues, where it is not REDIS_URL: any that Celery knows, "
        "as amqp://user:password@host:5672// or sentinel://host:26379/0.",
        "",
    )
    broker_options: str = _setting(
        "MIGRATION_SERVICE_BROKER_OPTIONS",
        'Further options of the broker\'s transport, as a JSON object: {"master_name": "main"} for Sentinel.',
        "{}",
    )
    broker_visibility_timeout: int = _setting(
        "MIGRATION_SERVICE_BROKER_VISIBILITY_TIMEOUT",
        "Seconds after which a message that no worker acknowledged is delivered again.",
        180,
    )
    smtp_url: str = _setting(
        "MIGRATION_SERVICE_SMTP_URL",
        "The mail server, as smtp://user:password@host:587?starttls=1 or smtps://host:465; "
        "empty: no e-mail is sent.",
        "",
    )
    email_from: str = _setting(
        "MIGRATION_SERVICE_EMAIL_FROM", "Sender of the customer e-mails, as Name <address>.", ""
    )
    log_level: str = _setting("MIGRATION_SERVICE_LOG_LEVEL", "DEBUG, INFO, WARNING or ERROR.", "INFO")
    log_format: str = _setting(
        "MIGRATION_SERVICE_LOG_FORMAT",
        "json, or text for people; auto: text on a terminal, json elsewhere.",
        "auto",
    )
    metrics_token: str = _setting(
        "MIGRATION_SERVICE_METRICS_TOKEN",
        "The bearer token that /metrics asks for; empty: it answers to this machine only.",
        "",
    )
    trusted_proxies: int = _setting(
        "MIGRATION_SERVICE_TRUSTED_PROXIES",
        "How many proxies of yours, one behind the other, each add the address they were asked from to "
        "X-Forwarded-For; 0: none, and the header is not believed.",
        0,
    )
    heartbeat_file: str = _setting(
        "MIGRATION_SERVICE_HEARTBEAT_FILE",
        "A file that workers and beat touch while they work, for health checks; empty: none.",
        "",
    )
    traces_endpoint: str = _setting(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "Where OpenTelemetry traces are sent, as http://host:4318; empty: nowhere.",
        "",
    )

    @property
    def token_keys(self) -> tuple[str, ...]:
        """The keys whose tokens are accepted; the first one signs."""
        others = (key.strip() for key in self.accepted_secret_keys.split(","))
        return (self.secret_key, *(key for key in others if key))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        """Read every setting. Raises SettingsError naming the variable that is missing or wrong."""
        home = home_folder(environ)
        values: dict[str, Any] = {"home": home}
        saved = load_saved_settings(home)
        for setting in fields(cls):
            if setting.name == "home":
                continue
            env = setting.metadata["env"]
            text = environ.get(env) or saved.get(env)
            if text is not None:
                values[setting.name] = _convert(env, text, setting.type)
            elif setting.default is MISSING:
                raise SettingsError(
                    f"{env} is not set, and no running service was found in {home}. "
                    "Start one with `migration-service up`, or set the variable."
                )
        settings = cls(**values)
        settings._check()
        return settings

    def _check(self) -> None:
        if self.log_format not in ("json", "text", "auto"):
            raise SettingsError(
                f"MIGRATION_SERVICE_LOG_FORMAT must be json, text or auto, not {self.log_format!r}."
            )
        if len(self.secret_key) < 32:
            raise SettingsError("MIGRATION_SERVICE_SECRET_KEY is too short: at least 32 characters.")
        if any(len(key) < 32 for key in self.token_keys):
            raise SettingsError(
                "MIGRATION_SERVICE_ACCEPTED_SECRET_KEYS has a key that is too short: at least 32 characters."
            )
        if self.audit_retention_days < 90:
            raise SettingsError("MIGRATION_SERVICE_AUDIT_RETENTION_DAYS must be 90 or more.")
        if self.batch_retention_days < 30:
            raise SettingsError("MIGRATION_SERVICE_BATCH_RETENTION_DAYS must be 30 or more.")
        if self.trusted_proxies < 0:
            raise SettingsError("MIGRATION_SERVICE_TRUSTED_PROXIES must be 0 or more.")


def read_secret(variable: str, environ: Mapping[str, str] = os.environ) -> str:
    """The secret in an environment variable that an operator has named (`vendors create --secret-env`).

    Raises SettingsError naming the variable, never its value, if it is missing or holds what cannot be sent
    in an HTTP header (anything but visible ASCII characters; a line break at the end is a common one).
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
    """What `up` wrote into the home folder, by variable name; empty where it never ran."""
    try:
        saved: dict[str, str] = json.loads((home / "settings.json").read_text())
    except FileNotFoundError:
        return {}
    except PermissionError as error:
        raise SettingsError(f"{home / 'settings.json'} may not be read by this user.") from error
    return saved


_SWITCH = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}


def _convert(env: str, text: str, kind: Any) -> Any:
    if kind is bool:
        if text.lower() not in _SWITCH:
            raise SettingsError(f"{env} must be on or off, not {text!r}.")
        return _SWITCH[text.lower()]
    try:
        return kind(text)
    except ValueError as error:
        raise SettingsError(f"{env} must be {kind.__name__}, not {text!r}.") from error
