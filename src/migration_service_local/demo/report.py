"""What `up` prints when it is ready: how the sample migration went, and where to look."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from migration_service_local.console import Output
from migration_service_local.demo.added_data import ADDITIONS
from migration_service_local.demo.batch import IMPORTED
from migration_service_local.demo.client import RequestOutcome

#: What the sample migration counts of each account.
STEPS = ("validated", "staged", "processed")
_FAILURES_SHOWN = 5


def show_summary(output: Output, outcome: RequestOutcome, accounts: int, seconds: float) -> None:
    """Counts and rate of the sample migration, and the first failures."""
    table = Table(title=f"Sample migration: {accounts} accounts in {seconds:.1f} s", title_justify="left")
    table.add_column("what")
    table.add_column("count", justify="right")
    for what in (*STEPS, *ADDITIONS, IMPORTED, "imported before", "sent again"):
        if outcome.counts[what]:
            table.add_row(what, str(outcome.counts[what]))
    table.add_row("failed", str(len(outcome.failures)))
    created = outcome.counts["processed"] + outcome.counts[IMPORTED]
    table.add_row("accounts a second", f"{created / seconds:.1f}")
    output.show(table)
    if outcome.failures:
        output.alarm("These accounts were not migrated", outcome.failures[:_FAILURES_SHOWN])


def show_addresses(
    output: Output, home: Path, settings: Mapping[str, str], supplier: str, demo: Mapping[str, str]
) -> None:
    """The addresses, the sample supplier's key, and a request to paste, on lines that can be copied whole."""
    web_url = settings["MIGRATION_SERVICE_WEB_URL"]
    rows = {
        "interface": f"{web_url}/v1/data-import/",
        "its documentation": f"{web_url}/v1/docs/",
        "Flower": settings["FLOWER_URL"],
        "Flower's user": settings["FLOWER_USER"],
        "Flower's password": settings["FLOWER_PASSWORD"],
        "data (home folder)": str(home),
    }
    if demo:
        rows |= {"import supplier": supplier, "API key": demo["api_key"]}
    output.show(Rule("Account Migration Import Service", style="green"))
    for name, value in rows.items():
        output.show(Text.assemble((f"{name:<20}", "bold"), value))
    if demo.get("account"):
        output.show(Text("\nAsk for the status of a migrated account:", style="bold"))
        for line in curl_lines(web_url, demo["api_key"], supplier, demo["account"]):
            output.show(Text(line))
    output.show(Rule(style="green"))
    output.say("serving; Ctrl-C stops everything")


def curl_lines(web_url: str, api_key: str, supplier: str, account: str) -> list[str]:
    """Two lines for a shell: obtain a token with the key, and use it."""
    query = (
        f'{{"query": "mutation {{ obtainServiceToken(input: {{APIKey: \\"{api_key}\\"}}) {{ token }} }}"}}'
    )
    extract = r"""sed 's/.*"token": *"\([^"]*\)".*/\1/'"""
    status = f"{web_url}/v1/data-import/account-transfer-status/{supplier}/{quote(account, safe='')}/"
    log_in = f"curl -s -H 'Content-Type: application/json' -d '{query}' {web_url}/v1/graphql/"
    return [
        f"TOKEN=$({log_in} | {extract})",
        f'curl -H "Authorization: Token $TOKEN" {status}',
    ]
