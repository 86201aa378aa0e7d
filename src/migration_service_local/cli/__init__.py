"""The commands that this package adds to `migration-service`."""

_HERE = "migration_service_local.cli"

#: The module of every command, and the first line of its help.
COMMANDS = {
    "up": (f"{_HERE}.up:up", "Run the whole service on this machine, with nothing installed."),
    "samples": (
        f"{_HERE}.samples:samples",
        "Write COUNT invented accounts as NDJSON: one account import payload per line.",
    ),
}
