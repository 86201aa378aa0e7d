"""The operators' command, run in this process with the servers of the tests."""

from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from migration_service.cli import main
from migration_service.config import Settings


@pytest.fixture
def run(migrated: Settings) -> Callable[..., Result]:
    """Run `migration-service` with arguments, an input and further variables. It may fail, but not crash."""

    def run(*arguments: str, given: bytes | str | None = None, **variables: str) -> Result:
        environment = {
            "DATABASE_URL": migrated.database_url,
            "REDIS_URL": migrated.redis_url,
            "MIGRATION_SERVICE_SECRET_KEY": migrated.secret_key,
            "MIGRATION_SERVICE_HOME": "/nonexistent",
            "MIGRATION_SERVICE_GO_LIVE_RECEIPT_HOURS": "0",
            **variables,
        }
        result = CliRunner().invoke(main, arguments, env=environment, input=given)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run
