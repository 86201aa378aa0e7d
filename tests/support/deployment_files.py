"""Everything with which the units and docker-compose.yml have to agree."""

import re
from dataclasses import fields
from pathlib import Path

from migration_service.celery_app import create_celery
from migration_service.config import Settings, variable_of
from migration_service.web_server import GRACEFUL_SECONDS

ROOT = Path(__file__).resolve().parents[2]
_SETTINGS = {variable_of(it) for it in fields(Settings)}
SECRET_SETTINGS = {variable_of(it) for it in fields(Settings) if it.metadata["secret"]}


def seconds_of_web(leave_seconds: float | None = None) -> float:
    """Return how long a web server goes on after SIGTERM, and then lets requests finish."""
    return GRACEFUL_SECONDS + (_defaults().leave_seconds if leave_seconds is None else leave_seconds)


def seconds_of_workers() -> float:
    """Return how long a worker lets tasks finish after SIGTERM."""
    return float(create_celery(_defaults(), loads_tasks=False).conf.worker_soft_shutdown_timeout)


def _defaults() -> Settings:
    return Settings.from_env({"REDIS_URL": "redis://127.0.0.1/0"}, without=("database_url", "secret_key"))


def unknown_settings(text: str) -> set[str]:
    """Return the names in a text that look like settings of the service and are none."""
    found = set(re.findall(r"\bMIGRATION_SERVICE_[A-Z_]*[A-Z]\b", text))
    return {name for name in found if not {name, name.removesuffix("_FILE")} & _SETTINGS}


def options(command: str, name: str) -> list[str]:
    """Return what a command line says for the option `--NAME=`."""
    return re.findall(rf"--{name}=(\S+)", command)
