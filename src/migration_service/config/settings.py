"""Every setting of the service, with its variable, purpose, default and bounds."""

import os
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from migration_payloads.moments import is_time_zone
from migration_service.config import variables
from migration_service.config.saved import explain_missing, given_variables, home_folder, load_saved_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one process. The composition roots and the commands read them once."""

    home: Path = variables.setting("The folder of the embedded servers' data.")
    database_url: str = variables.setting(
        "PostgreSQL, as postgresql://user:password@host:port/name. Several servers, of which one writes, as "
        "postgresql://user:password@one:5432,two:5432/name?target_session_attrs=read-write.",
        secret=True,
        env="DATABASE_URL",
    )
    owner_database_url: str = variables.setting(
        "The same database, as the role that owns the tables, for `revisions upgrade`. It grants the role "
        "of DATABASE_URL the necessary privileges. If empty, the role of DATABASE_URL owns the tables.",
        "",
        secret=True,
    )
    redis_url: str = variables.setting(
        "Redis or Valkey, as redis://:password@host:port/0, or its Sentinels, as "
        "sentinel://:password@one:26379/0?master_name=main;sentinel://two:26379;sentinel://three:26379.",
        secret=True,
        env="REDIS_URL",
    )
    secret_key: str = variables.setting(
        "The key that signs the tokens: at least 32 characters, the same for all web processes.", secret=True
    )
    accepted_secret_keys: str = variables.setting(
        "Further keys whose tokens are accepted, separated by commas: the next MIGRATION_SERVICE_SECRET_KEY "
        "before it is used, and the previous one until its refresh tokens have expired.",
        "",
        secret=True,
    )
    process_wait_seconds: float = variables.setting(
        "Seconds that the process endpoint waits for the outcome before it answers 202 or 429.",
        25.0,
        at_least=0,
    )
    max_body_bytes: int = variables.setting("The largest request body in bytes.", 8_000_000, at_least=1)
    leave_seconds: float = variables.setting(
        "Seconds that a web server goes on working after it is told to stop, while /health/ready answers "
        "503. Use 0 without a load balancer, as `up` does.",
        10.0,
        at_least=0,
        at_most=60,
    )
    max_batch_bytes: int = variables.setting(
        "The largest file of a batch, in bytes after decompression.", 16_000_000_000, at_least=1
    )
    max_batch_lines: int = variables.setting(
        "The largest number of lines in the file of a batch.", 2_000_000, at_least=1
    )
    max_batch_ratio: int = variables.setting(
        "The largest ratio of the sizes of a batch's file after and before decompression.", 200, at_least=1
    )
    max_uploads: int = variables.setting(
        "The largest number of simultaneous uploads of an organisation.", 4, at_least=1
    )
    max_open_batches: int = variables.setting(
        "The largest number of running, waiting and paused batches of an organisation.", 100, at_least=1
    )
    max_batch_storage_bytes: int = variables.setting(
        "The most bytes that the lines of an organisation's batches take in the database, with 200 added "
        "for each line.",
        64_000_000_000,
        at_least=1,
    )
    max_staged_accounts: int = variables.setting(
        "The largest number of an organisation's accounts that are staged but not created.",
        10_000_000,
        at_least=1,
    )
    max_sessions: int = variables.setting(
        "The largest number of open sessions of an API key. If there are more, the oldest ones end.",
        10_000,
        at_least=1,
    )
    upload_folder: str = variables.setting(
        "The folder for incoming files of batches. If empty, the system's folder for temporary files.", ""
    )
    deferral_hours: int = variables.setting(
        "Hours that a line of added data waits for an account that is still to come. After that it fails "
        "with account_not_found.",
        168,
        at_least=0,
    )
    batch_slot_reserve: int = variables.setting(
        "The number of slots of the concurrency limit that batches leave free for requests.", 50, at_least=0
    )
    batch_chunks_in_flight: int = variables.setting(
        "The number of messages that the batches of an organisation have in the queue. Use at least twice "
        "the number of batch worker processes.",
        8,
        at_least=1,
    )
    batch_retention_days: int = variables.setting(
        "Days that the lines and results of a batch are kept after it has ended.", 30, at_least=30
    )
    batch_idle_days: int = variables.setting(
        "Days after which a batch that is paused or waits for its supplier is cancelled. 0 means never.",
        90,
        at_least=0,
    )
    audit_retention_days: int = variables.setting(
        "Days that audit entries are kept. The hashes of the days are kept for ever.", 730, at_least=90
    )
    audit_head_file: str = variables.setting(
        "The file to which workers append the head of each sealed day of the audit, best on another machine.",
        "",
    )
    payload_retention_days: int = variables.setting(
        "Days that the staged payload of an account is kept after the account was created. 0 means no limit.",
        180,
        at_least=0,
    )
    staged_retention_days: int = variables.setting(
        "Days that an account that was never created is kept after it was last staged. 0 means no limit.",
        180,
        at_least=0,
    )
    go_live_receipt_hours: float = variables.setting(
        "The age in hours of the comparison that a go-live asks for, with nothing open in it, or with "
        "exceptions. 0: it asks for none.",
        24.0,
        at_least=0,
    )
    go_live_four_eyes: bool = variables.setting(
        "on if nobody may decide a go-live who has accepted an exception of its receipt.",
        False,
    )
    error_retention_days: int = variables.setting(
        "Days that the error texts of attempts and customer e-mails are kept. Their codes are kept. 0 means "
        "no limit.",
        90,
        at_least=0,
    )
    event_retention_days: int = variables.setting("Days that events are kept for the feed.", 30, at_least=1)
    event_consumer_days: int = variables.setting(
        "Days after which a named consumer of events that asks for none is given up. Until then its "
        "events are kept.",
        60,
        at_least=1,
    )
    token_lifetime_seconds: int = variables.setting(
        "Seconds that an access token is valid.", 3600, at_least=1
    )
    refresh_token_lifetime_seconds: int = variables.setting(
        "Seconds that a refresh token is valid.", 7 * 24 * 3600, at_least=1
    )
    database_pool_size: int = variables.setting(
        "The largest number of connections to PostgreSQL of a web process, which keeps them open.",
        20,
        at_least=1,
    )
    database_pooler: bool = variables.setting(
        "on if DATABASE_URL is a pgbouncer in transaction mode. Connections then keep no state.", False
    )
    broker_visibility_timeout: int = variables.setting(
        "Seconds after which an unacknowledged message is redelivered.", 180, at_least=1
    )
    smtp_url: str = variables.setting(
        "The mail server, as smtp://user:password@host:587?starttls=1 or smtps://host:465. "
        "If empty, no e-mails are sent.",
        "",
        secret=True,
    )
    email_from: str = variables.setting("The sender of the e-mails, as Name <address>.", "")
    alert_emails: str = variables.setting(
        "The addresses, separated by commas, of the people to notify when a batch is paused after too many "
        "errors, or a wave waits for a decision. If empty, nobody is notified.",
        "",
    )
    webhook_secret_keys: str = variables.setting(
        "The keys that encrypt the secrets of webhooks in the database. The first one encrypts, all "
        "decrypt. If empty, secrets are not encrypted.",
        "",
        secret=True,
        check=variables.are_keys,
        allowed="keys of 32 bytes in URL-safe Base64, separated by commas",
    )
    certificate_key: str = variables.setting(
        "The key that signs certificates of what was migrated. If empty, none are made.",
        "",
        secret=True,
        check=variables.is_key,
        allowed="one key of 32 bytes in URL-safe Base64",
    )
    webhook_networks: str = variables.setting(
        "Networks, as 10.20.0.0/16 and separated by commas, to which webhooks may be sent although they are "
        "not public.",
        "",
        check=variables.are_networks,
        allowed="networks separated by commas",
    )
    webhook_http: bool = variables.setting("on if webhooks may be sent without TLS, by http.", False)
    log_level: str = variables.setting(
        "The lowest level of log lines.", "INFO", one_of=("DEBUG", "INFO", "WARNING", "ERROR")
    )
    log_format: str = variables.setting(
        "The format of log lines. auto means text on a terminal and json elsewhere.",
        "auto",
        one_of=("json", "text", "auto"),
    )
    metrics_token: str = variables.setting(
        "The bearer token that /metrics requires. If empty, only requests from this machine are answered.",
        "",
        secret=True,
    )
    trusted_proxies: int = variables.setting(
        "The number of your own proxies in front of the service that add the client's address to "
        "X-Forwarded-For. With 0 the header is ignored.",
        0,
        at_least=0,
    )
    allowed_hosts: str = variables.setting(
        "Host names allowed in the Host header of requests, separated by commas. Others get a 400. If "
        "empty, any name is allowed, which is right for a service on loopback.",
        "",
    )
    console: bool = variables.setting("on if operators can log in to the console at /console/.", False)
    console_url: str = variables.setting(
        "The address of the console in a browser, as https://migration.example.com/console/. With https, "
        "its cookie is only sent encrypted. OpenID Connect returns to it. If empty, the address that the "
        "browser requests.",
        "",
    )
    console_idle_minutes: int = variables.setting(
        "Minutes without activity after which an operator has to log in to the console again.", 60, at_least=1
    )
    console_session_hours: int = variables.setting(
        "Hours after which an operator has to log in to the console again even when active.", 12, at_least=1
    )
    console_time_zone: str = variables.setting(
        "The time zone of times in the console, for browsers without scripts.",
        "Europe/Amsterdam",
        check=is_time_zone,
        allowed="a time zone such as Europe/Amsterdam",
    )
    openid_issuer: str = variables.setting(
        "The OpenID Connect provider with which operators log in, as https://login.example.com. If empty, "
        "there is none.",
        "",
    )
    openid_client_id: str = variables.setting("The client id of this service at the provider.", "")
    openid_client_secret: str = variables.setting(
        "The client secret of this service at the provider.", "", secret=True
    )
    openid_claim: str = variables.setting(
        "The claim with the name of the operator. If it is email, the provider must mark it as verified.",
        "email",
    )
    flower_url: str = variables.setting(
        "The address of Flower, to which the console links.", "", env="FLOWER_URL"
    )
    grafana_url: str = variables.setting("The address of the dashboard, to which the console links.", "")
    heartbeat_file: str = variables.setting(
        "A file that workers and beat touch while they are alive, for health checks. If empty, there is "
        "none.",
        "",
    )
    traces_endpoint: str = variables.setting(
        "The address to which OpenTelemetry traces are sent, as http://host:4318. If empty, no traces are "
        "sent.",
        "",
        env="OTEL_EXPORTER_OTLP_ENDPOINT",
    )

    metrics_folder: str = variables.setting(
        "The folder in which the processes of a web server share their metrics. If empty, the web server "
        "creates one.",
        "",
        env="PROMETHEUS_MULTIPROC_DIR",
    )

    @property
    def token_keys(self) -> tuple[str, ...]:
        """The keys whose tokens are accepted. The first one signs."""
        return (self.secret_key, *_listed(self.accepted_secret_keys))

    @property
    def alert_recipients(self) -> tuple[str, ...]:
        """The distinct addresses to which alerts are sent."""
        return tuple(dict.fromkeys(_listed(self.alert_emails)))

    @property
    def webhook_keys(self) -> tuple[str, ...]:
        """The keys that encrypt the secrets of webhooks. The first one encrypts."""
        return _listed(self.webhook_secret_keys)

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
            variable = variables.variable_of(it)
            text = variables.read_text(variable, environ, secret=it.metadata["secret"]) or saved.get(variable)
            if text is not None:
                values[it.name] = variables.convert(it, text)
            elif it.default is MISSING:
                raise variables.SettingsError(explain_missing(variable, home, environ, saved))
        settings = cls(**values)
        settings._check(without)
        return settings

    def _check(self, without: Collection[str]) -> None:
        """Raise SettingsError if keys are too short, or if settings contradict each other."""
        if "secret_key" not in without and len(self.secret_key) < 32:
            raise variables.SettingsError(
                f"MIGRATION_SERVICE_SECRET_KEY has {len(self.secret_key)} characters. "
                "It must have at least 32."
            )
        if any(len(key) < 32 for key in self.token_keys[1:]):
            raise variables.SettingsError(
                "MIGRATION_SERVICE_ACCEPTED_SECRET_KEYS has a key with fewer than 32 characters."
            )
        if self.openid_issuer and not (self.openid_client_id and self.openid_client_secret):
            raise variables.SettingsError(
                "MIGRATION_SERVICE_OPENID_ISSUER needs MIGRATION_SERVICE_OPENID_CLIENT_ID and "
                "MIGRATION_SERVICE_OPENID_CLIENT_SECRET."
            )


def _listed(text: str) -> tuple[str, ...]:
    """Return what is separated by commas."""
    return tuple(filter(None, (it.strip() for it in text.split(","))))


def is_setting(variable: str) -> bool:
    """Return whether this environment variable is a setting of the service."""
    known = {variables.variable_of(it) for it in fields(Settings)}
    return variable.removesuffix(variables.FILE_SUFFIX) in known or variable.startswith("MIGRATION_SERVICE_")
