"""Every setting of the service, with its variable, purpose, default and bounds."""

import os
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from migration_service.config.saved import explain_missing, given_variables, home_folder, load_saved_settings
from migration_service.config.variables import (
    FILE_SUFFIX,
    SettingsError,
    convert,
    is_json_object,
    is_time_zone,
    read_text,
    setting,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one process. The composition roots and the commands read them once."""

    home: Path = setting("MIGRATION_SERVICE_HOME", "The folder of the embedded servers' data.")
    database_url: str = setting(
        "DATABASE_URL", "PostgreSQL, as postgresql://user:password@host:port/name.", secret=True
    )
    owner_database_url: str = setting(
        "MIGRATION_SERVICE_OWNER_DATABASE_URL",
        "The same database, as the role that owns the tables, for `revisions upgrade`. It grants the role of "
        "DATABASE_URL what that needs. Empty: the role of DATABASE_URL owns the tables itself.",
        "",
        secret=True,
    )
    redis_url: str = setting("REDIS_URL", "Redis or Valkey, as redis://:password@host:port/0.", secret=True)
    secret_key: str = setting(
        "MIGRATION_SERVICE_SECRET_KEY",
        "The key that signs the tokens: at least 32 characters, the same for all web processes.",
        secret=True,
    )
    accepted_secret_keys: str = setting(
        "MIGRATION_SERVICE_ACCEPTED_SECRET_KEYS",
        "Further keys whose tokens are accepted, with commas between: the next MIGRATION_SERVICE_SECRET_KEY "
        "before it is used, and the last one until its refresh tokens have expired.",
        "",
        secret=True,
    )
    process_wait_seconds: float = setting(
        "MIGRATION_SERVICE_PROCESS_WAIT_SECONDS",
        "Seconds that the process endpoint waits for the outcome before it answers 202 or 429.",
        25.0,
        at_least=0,
    )
    max_body_bytes: int = setting(
        "MIGRATION_SERVICE_MAX_BODY_BYTES",
        "The largest request body in bytes. A larger one is answered with 413.",
        8_000_000,
        at_least=1,
    )
    request_seconds: float = setting(
        "MIGRATION_SERVICE_REQUEST_SECONDS",
        "Seconds that a client has to send a request, plus one second for each 10 kB that it has sent.",
        20.0,
        at_least=0,
    )
    leave_seconds: float = setting(
        "MIGRATION_SERVICE_LEAVE_SECONDS",
        "Seconds for which a web server that is told to end goes on as before, and only /health/ready "
        "answers 503, so that its balancer sends it nothing more. 0: without a balancer. `up` always uses 0.",
        10.0,
        at_least=0,
        at_most=60,
    )
    max_batch_bytes: int = setting(
        "MIGRATION_SERVICE_MAX_BATCH_BYTES",
        "The largest file of a batch, in bytes after decompression. A larger one is answered with 413.",
        16_000_000_000,
        at_least=1,
    )
    max_batch_lines: int = setting(
        "MIGRATION_SERVICE_MAX_BATCH_LINES",
        "The most lines of a file of a batch. A file with more is answered with 413.",
        2_000_000,
        at_least=1,
    )
    max_batch_ratio: int = setting(
        "MIGRATION_SERVICE_MAX_BATCH_RATIO",
        "How many times larger the file of a batch may be after decompression. Beyond it: 413.",
        200,
        at_least=1,
    )
    max_uploads: int = setting(
        "MIGRATION_SERVICE_MAX_UPLOADS",
        "How many files of batches an organisation may send at once. Beyond it: 429.",
        4,
        at_least=1,
    )
    max_open_batches: int = setting(
        "MIGRATION_SERVICE_MAX_OPEN_BATCHES",
        "How many batches of an organisation may be under way or paused at once. Beyond it: 429.",
        100,
        at_least=1,
    )
    max_batch_storage_bytes: int = setting(
        "MIGRATION_SERVICE_MAX_BATCH_STORAGE_BYTES",
        "How many bytes the lines of an organisation's batches may take in the database, 200 added for each "
        "line. Beyond it: 429.",
        64_000_000_000,
        at_least=1,
    )
    max_staged_accounts: int = setting(
        "MIGRATION_SERVICE_MAX_STAGED_ACCOUNTS",
        "How many accounts of an organisation may be staged and not created. Beyond it no further account is "
        "staged: 429.",
        10_000_000,
        at_least=1,
    )
    max_sessions: int = setting(
        "MIGRATION_SERVICE_MAX_SESSIONS",
        "How many sessions of an API key may be open. Beyond it the oldest ones end.",
        10_000,
        at_least=1,
    )
    upload_folder: str = setting(
        "MIGRATION_SERVICE_UPLOAD_FOLDER",
        "The folder that holds files of batches until they have arrived. Empty: the system's folder for "
        "temporary files.",
        "",
    )
    line_processor_seconds: float = setting(
        "MIGRATION_SERVICE_LINE_PROCESSOR_SECONDS",
        "Seconds of processor time that the validation of one line of a batch may take. 0: without limit.",
        5.0,
        at_least=0,
    )
    deferral_hours: int = setting(
        "MIGRATION_SERVICE_DEFERRAL_HOURS",
        "Hours that a line of added data waits for an account that is being created or is in a batch that is "
        "not over. Then it fails with account_not_found.",
        168,
        at_least=0,
    )
    batch_slot_reserve: int = setting(
        "MIGRATION_SERVICE_BATCH_SLOT_RESERVE",
        "How many slots of the concurrency limit batches leave free for requests.",
        50,
        at_least=0,
    )
    batch_chunks_in_flight: int = setting(
        "MIGRATION_SERVICE_BATCH_CHUNKS_IN_FLIGHT",
        "Messages that the batches of an organisation have in the queue: at least twice the batch worker "
        "processes.",
        8,
        at_least=1,
    )
    batch_retention_days: int = setting(
        "MIGRATION_SERVICE_BATCH_RETENTION_DAYS",
        "Days that the lines and results of a batch are kept after its end.",
        30,
        at_least=30,
    )
    batch_idle_days: int = setting(
        "MIGRATION_SERVICE_BATCH_IDLE_DAYS",
        "Days after which a batch that is paused, or waits for its supplier, is cancelled, so that its lines "
        "are removed too. 0: never.",
        90,
        at_least=0,
    )
    audit_retention_days: int = setting(
        "MIGRATION_SERVICE_AUDIT_RETENTION_DAYS",
        "Days that audit entries are kept. The hashes of the days are kept for ever.",
        730,
        at_least=90,
    )
    payload_retention_days: int = setting(
        "MIGRATION_SERVICE_PAYLOAD_RETENTION_DAYS",
        "Days that the staged payload of an account is kept after the account was created. 0: without limit.",
        180,
        at_least=0,
    )
    staged_retention_days: int = setting(
        "MIGRATION_SERVICE_STAGED_RETENTION_DAYS",
        "Days that an account that was staged and never created is kept after it was last staged. "
        "0: without limit.",
        180,
        at_least=0,
    )
    error_retention_days: int = setting(
        "MIGRATION_SERVICE_ERROR_RETENTION_DAYS",
        "Days that the texts of errors of attempts and of customer e-mails are kept. Their codes stay. "
        "0: without limit.",
        90,
        at_least=0,
    )
    token_lifetime_seconds: int = setting(
        "MIGRATION_SERVICE_TOKEN_LIFETIME_SECONDS",
        "Seconds that an access token is valid.",
        3600,
        at_least=1,
    )
    refresh_token_lifetime_seconds: int = setting(
        "MIGRATION_SERVICE_REFRESH_TOKEN_LIFETIME_SECONDS",
        "Seconds that a refresh token is valid.",
        7 * 24 * 3600,
        at_least=1,
    )
    database_pool_size: int = setting(
        "MIGRATION_SERVICE_DATABASE_POOL_SIZE",
        "Connections that one web process keeps to PostgreSQL.",
        10,
        at_least=1,
    )
    database_pooler: bool = setting(
        "MIGRATION_SERVICE_DATABASE_POOLER",
        "on, if DATABASE_URL is a pgbouncer in transaction mode. No connection then keeps any state.",
        False,
    )
    reference_lease_seconds: float = setting(
        "MIGRATION_SERVICE_REFERENCE_LEASE_SECONDS",
        "Seconds for which a web process keeps an API key, a session or an import supplier in memory, from "
        "the beginning of its look-up. Revoking a key takes as long. The same for every process. "
        "0: they are looked up in each request.",
        1.0,
        at_least=0,
        at_most=1,
    )
    broker_url: str = setting(
        "MIGRATION_SERVICE_BROKER_URL",
        "The broker of the queues, if it is not REDIS_URL: any that Celery supports, "
        "for example amqp://user:password@host:5672// or sentinel://host:26379/0.",
        "",
        secret=True,
    )
    broker_options: str = setting(
        "MIGRATION_SERVICE_BROKER_OPTIONS",
        'More options of the broker\'s transport, as a JSON object, for example {"master_name": "main"}.',
        "{}",
        check=is_json_object,
        allowed="a JSON object",
        secret=True,
    )
    broker_visibility_timeout: int = setting(
        "MIGRATION_SERVICE_BROKER_VISIBILITY_TIMEOUT",
        "Seconds after which an unacknowledged message is redelivered.",
        180,
        at_least=1,
    )
    smtp_url: str = setting(
        "MIGRATION_SERVICE_SMTP_URL",
        "The mail server, as smtp://user:password@host:587?starttls=1 or smtps://host:465. "
        "Empty: no e-mail is sent.",
        "",
        secret=True,
    )
    email_from: str = setting(
        "MIGRATION_SERVICE_EMAIL_FROM", "The sender of the e-mails, as Name <address>.", ""
    )
    alert_emails: str = setting(
        "MIGRATION_SERVICE_ALERT_EMAILS",
        "The addresses, separated by commas, of those who are told when a batch is paused after too many "
        "errors, or a wave waits for a decision. Empty: nobody.",
        "",
    )
    log_level: str = setting(
        "MIGRATION_SERVICE_LOG_LEVEL",
        "The least severe lines that are logged.",
        "INFO",
        one_of=("DEBUG", "INFO", "WARNING", "ERROR"),
    )
    log_format: str = setting(
        "MIGRATION_SERVICE_LOG_FORMAT",
        "How lines are logged. auto: text on a terminal and json elsewhere.",
        "auto",
        one_of=("json", "text", "auto"),
    )
    metrics_token: str = setting(
        "MIGRATION_SERVICE_METRICS_TOKEN",
        "The bearer token that /metrics requires. Empty: only requests from this machine are answered.",
        "",
        secret=True,
    )
    trusted_proxies: int = setting(
        "MIGRATION_SERVICE_TRUSTED_PROXIES",
        "The number of your own proxies in front of the service that add the client's address to "
        "X-Forwarded-For. 0: none, and the header is ignored.",
        0,
        at_least=0,
    )
    allowed_hosts: str = setting(
        "MIGRATION_SERVICE_ALLOWED_HOSTS",
        "Host names that requests may name in their Host header, separated by commas; another one gets 400. "
        "Empty: any, which is right for a service on loopback.",
        "",
    )
    console: bool = setting(
        "MIGRATION_SERVICE_CONSOLE", "on: operators can log in to the console at /console/.", False
    )
    console_url: str = setting(
        "MIGRATION_SERVICE_CONSOLE_URL",
        "The address of the console in a browser, as https://migration.example.com/console/. With https, its "
        "cookie is only sent encrypted. OpenID Connect returns to it. Empty: what the browser asks for.",
        "",
    )
    console_idle_minutes: int = setting(
        "MIGRATION_SERVICE_CONSOLE_IDLE_MINUTES",
        "Minutes after which an operator who does nothing in the console has to log in again.",
        60,
        at_least=1,
    )
    console_session_hours: int = setting(
        "MIGRATION_SERVICE_CONSOLE_SESSION_HOURS",
        "Hours after which an operator has to log in to the console again in any case.",
        12,
        at_least=1,
    )
    console_time_zone: str = setting(
        "MIGRATION_SERVICE_CONSOLE_TIME_ZONE",
        "The time zone of the times in the console, for browsers without script.",
        "Europe/Amsterdam",
        check=is_time_zone,
        allowed="a time zone such as Europe/Amsterdam",
    )
    openid_issuer: str = setting(
        "MIGRATION_SERVICE_OPENID_ISSUER",
        "The OpenID Connect provider with which operators log in, as https://login.example.com. Empty: none.",
        "",
    )
    openid_client_id: str = setting(
        "MIGRATION_SERVICE_OPENID_CLIENT_ID", "What the provider calls this service.", ""
    )
    openid_client_secret: str = setting(
        "MIGRATION_SERVICE_OPENID_CLIENT_SECRET",
        "The secret that the provider gave this service.",
        "",
        secret=True,
    )
    openid_claim: str = setting(
        "MIGRATION_SERVICE_OPENID_CLAIM",
        "The claim that has the name of the operator. If it is email, the provider must say that it is "
        "verified.",
        "email",
    )
    flower_url: str = setting("FLOWER_URL", "The address of Flower, to which the console links.", "")
    grafana_url: str = setting(
        "MIGRATION_SERVICE_GRAFANA_URL", "The address of the dashboard, to which the console links.", ""
    )
    heartbeat_file: str = setting(
        "MIGRATION_SERVICE_HEARTBEAT_FILE",
        "A file that workers and beat touch while they are alive, for health checks. Empty: none.",
        "",
    )
    traces_endpoint: str = setting(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "The address that OpenTelemetry traces are sent to, as http://host:4318. Empty: no traces.",
        "",
    )

    metrics_folder: str = setting(
        "PROMETHEUS_MULTIPROC_DIR",
        "The folder in which the processes of a web server share their metrics. Empty: "
        "gunicorn.conf.py makes one.",
        "",
    )

    @property
    def token_keys(self) -> tuple[str, ...]:
        """The keys whose tokens are accepted. The first one signs."""
        others = (key.strip() for key in self.accepted_secret_keys.split(","))
        return (self.secret_key, *(key for key in others if key))

    @property
    def alert_recipients(self) -> tuple[str, ...]:
        """The distinct addresses to which alerts are sent."""
        given = (address.strip() for address in self.alert_emails.split(","))
        return tuple(dict.fromkeys(filter(None, given)))

    @classmethod
    def from_env(
        cls, environ: Mapping[str, str] = os.environ, *, without: Collection[str] = ()
    ) -> "Settings":
        """Read every setting. Raise SettingsError naming the variable that is missing or invalid.

        `without` names settings that this process does not need. They are empty, so that it need not know
        secrets.
        """
        home = home_folder(environ)
        saved = {} if given_variables(environ) else load_saved_settings(home)
        values: dict[str, Any] = {"home": home}
        for it in fields(cls):
            if it.name == "home":
                continue
            if it.name in without:
                values[it.name] = ""
                continue
            variable = it.metadata["env"]
            text = read_text(variable, environ, secret=it.metadata["secret"]) or saved.get(variable)
            if text is not None:
                values[it.name] = convert(it, text)
            elif it.default is MISSING:
                raise SettingsError(explain_missing(variable, home, environ, saved))
        settings = cls(**values)
        settings._check(without)
        return settings

    def _check(self, without: Collection[str]) -> None:
        """Raise SettingsError if keys are too short, or if settings contradict each other."""
        if "secret_key" not in without and len(self.secret_key) < 32:
            raise SettingsError(
                f"MIGRATION_SERVICE_SECRET_KEY has {len(self.secret_key)} characters. "
                "It must have at least 32."
            )
        if any(len(key) < 32 for key in self.token_keys[1:]):
            raise SettingsError(
                "MIGRATION_SERVICE_ACCEPTED_SECRET_KEYS has a key with fewer than 32 characters."
            )
        if self.openid_issuer and not (self.openid_client_id and self.openid_client_secret):
            raise SettingsError(
                "MIGRATION_SERVICE_OPENID_ISSUER needs MIGRATION_SERVICE_OPENID_CLIENT_ID and "
                "MIGRATION_SERVICE_OPENID_CLIENT_SECRET."
            )


def is_setting(variable: str) -> bool:
    """Return whether this environment variable is a setting of the service."""
    known = {it.metadata["env"] for it in fields(Settings)}
    return variable.removesuffix(FILE_SUFFIX) in known or variable.startswith("MIGRATION_SERVICE_")
