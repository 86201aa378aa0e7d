"""`migration-client results`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from migration_service_client.command.lineage import Place, find_rows, rows_of
from migration_service_client.command.online import Service, online
from migration_service_client.command.output import Record, json_option, show_list
from migration_service_client.command.runs import find_run
from migration_service_client.models import LineResult


@click.command()
@click.argument("target", metavar="FILE|BATCH")
@click.option("--status", metavar="STATUS", help="Only lines with this status, such as FAILED.")
@click.option("--code", metavar="CODE", help="Only lines with this error or warning.")
@json_option
@online()
def results(*, target: str, status: str | None, code: str | None, as_json: bool, service: Service) -> None:
    """Show what came of each line of a FILE that was sent, or of the BATCH with this id."""
    run = find_run(target)
    if run is not None and run.batch_id is None:
        found = (it for _, it in sorted(run.lines.items()) if _fits(it, status, code))
        _show(found, as_json, target)
        return
    with service.client() as client:
        batch_id = target if run is None else str(run.batch_id)
        lines = client.get_batch_results(batch_id, status=status, code=code)
        _show(map(_as_record, lines), as_json, target)


def _as_record(line: LineResult) -> dict[str, Any]:
    names = ("line_number", "external_account_number", "status", "service_account_number")
    findings = {
        kind: [{"code": it.code, "attr": it.attr, "detail": it.detail} for it in found]
        for kind, found in (("errors", line.errors), ("warnings", line.warnings))
        if found
    }
    return {name: getattr(line, name) for name in names} | findings


def _show(lines: Iterator[Record], as_json: bool, target: str) -> None:
    book = Path(target.removesuffix(".journal"))
    if as_json or not rows_of(book).is_file():
        show_list(lines if as_json else map(_row, lines), as_json, nothing="No such line.")
        return
    kept = list(lines)
    rows = find_rows(book, (place for it in kept for place in _places(it)))
    made_of = (dict.fromkeys(rows[it] for it in _places(line) if it in rows) for line in kept)
    shown = (
        _row(line) | {"made_of": "; ".join(found) or None} for line, found in zip(kept, made_of, strict=True)
    )
    show_list(shown, as_json, nothing="No such line.")


def _places(line: Record) -> Iterator[Place]:
    """Yield the places of the findings in a line."""
    for it in (*line.get("errors", ()), *line.get("warnings", ())):
        yield line["external_account_number"], it["attr"]


def _row(line: Record) -> dict[str, Any]:
    found = [*line.get("errors", ()), *line.get("warnings", ())]
    return {
        "line": line["line_number"],
        "account": line["external_account_number"],
        "status": line["status"],
        "number": line.get("service_account_number"),
        "found": [f"{it['code']} at {it['attr']}" if it["attr"] else it["code"] for it in found],
    }


def _fits(line: Record, status: str | None, code: str | None) -> bool:
    found = [*line.get("errors", ()), *line.get("warnings", ())]
    return status in (None, line["status"]) and (code is None or code in {it["code"] for it in found})
