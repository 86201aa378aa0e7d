"""Write the interface description to a file. No server is needed for it."""

import sys
from pathlib import Path

from migration_service.app import create_app
from migration_service.config import Settings


def main(target: Path) -> None:
    """Write the description of an application that never connects to anything."""
    settings = Settings(
        home=target.parent,
        database_url="postgresql://nobody@127.0.0.1:1/none",
        redis_url="redis://127.0.0.1:1/0",
        secret_key="not a secret: nothing is signed with it",  # noqa: S106
    )
    target.write_bytes(create_app(settings).test_client().get("/v1/openapi.json").data)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
