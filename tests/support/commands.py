"""What the operators' commands return in tests."""

import json
from collections.abc import Callable
from typing import Any

from click.testing import Result

#: Runs `migration-service` with arguments.
Run = Callable[..., Result]


def json_of(result: Result) -> Any:
    """Return the JSON of a command that succeeded."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def lines_of(result: Result) -> list[Any]:
    """Return the JSON of each line of a command that succeeded."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]
