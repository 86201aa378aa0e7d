"""`migration-client send`."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from migration_payloads.files.output import OutputPath, say
from migration_payloads.moments import show_moment
from migration_service_client import Client, ServiceError, UnexpectedAnswer, idempotency_key
from migration_service_client.answers import parse
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.journal import Journal, Record
from migration_service_client.command.lines import read_lines
from migration_service_client.command.online import Service, online
from migration_service_client.command.output import count, json_option, progress, read_moment, show_json
from migration_service_client.command.probe import probe
from migration_service_client.command.runs import COMMAND, Run, Runs, digest_file, journal_of, make_order
from migration_service_client.command.single import LineSender, Payload, find_repeated
from migration_service_client.command.watch import count_done
from migration_service_client.models import BatchProgressAnswer

#: The most lines of a file that is sent in single requests unless told otherwise.
_FEW = 100
#: The most bytes of a file that is small.
_SMALL = 10_000_000
_KINDS = ("accounts", "notes", "transactions", "statements", "payment-instructions")
#: The status of a line whose account exists, and the warning if that differs from the line.
_EXISTS, _DIFFERS = "ALREADY_IMPORTED", "payload_differs"
#: By how much the moment of a new batch may seem to be before it was sent.
_INACCURACY = timedelta(seconds=2)
#: States from which a batch does not go on without being told to.
_ENDED = ("COMPLETED", "CANCELLED")
_HOW_ON = {
    "PAUSED": "Resume or cancel it. The same command then shows how it goes on.",
    "STOPPED": "It can be resumed once the import supplier is Ongoing.",
}


def _read_extracted_at(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    if text is not None:
        read_moment(text)
    return text


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--mode",
    type=click.Choice(["validate", "stage", "import", "dry-run"]),
    required=True,
    help="What to do with each line: see above.",
)
@click.option("--team", metavar="NAME", help="The operations team. Required to create accounts.")
@click.option("--supplier", metavar="CODE", help="The import supplier.  [default: that of the first line]")
@click.option("--kind", type=click.Choice(_KINDS), default="accounts", show_default=True, help="The lines.")
@click.option(
    "--as",
    "way",
    type=click.Choice(["batch", "single"]),
    help=f"As one batch, or each line in a request.  [default: single up to {_FEW} lines]",
)
@click.option("--profile", type=click.Choice(["lenient", "strict"]), help="strict: warnings are errors.")
@click.option(
    "--extracted-at",
    callback=_read_extracted_at,
    metavar="MOMENT",
    help="When the accounts were extracted: 2026-03-01T22:00:00Z.",
)
@click.option("--name", metavar="TEXT", help="A name to recognise the batch by.")
@click.option(
    "--stop-after-errors", metavar="N|N%|off", help="Pause the batch after so many errors. Only for a batch."
)
@click.option(
    "--totals",
    "totals_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The control totals of the file, as `check --totals` writes them. Only for a batch of accounts.",
)
@click.option(
    "--parallel",
    type=click.IntRange(1, 100),
    default=8,
    show_default=True,
    metavar="N",
    help="How many single requests are on their way at the same time.",
)
@click.option(
    "--replace-changed",
    is_flag=True,
    help="Create accounts that exist and differ again, under the same number, after a preview. Only with "
    "--mode import.",
)
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask whether to replace accounts.")
@click.option("--again", is_flag=True, help="Send a file once more that was sent before.")
@click.option(
    "--journal",
    type=OutputPath(),
    metavar="FILE",
    help="Where to note what was sent.  [default: FILE.journal]",
)
@json_option
@online(patience=600)
def send(  # the options of a command are its arguments
    *,
    file: Path,
    way: str | None,
    parallel: int,
    totals_file: Path | None,
    replace_changed: bool,
    is_sure: bool,
    again: bool,
    journal: Path | None,
    as_json: bool,
    service: Service,
    **options: str | None,
) -> None:
    """Send FILE, which has an account in each line (NDJSON, plain or gzip).

    \b
    validate  check every line, store nothing
    stage     check and store
    import    check, store and create the accounts, or add data to existing ones
    dry-run   do everything that import does, then roll it back (only as a batch)

    FILE.journal notes what was sent. If the command is interrupted or killed, repeat it: it goes on, and
    sends nothing twice. The exit status is 0 if all lines succeeded, 1 if some failed, or have an account
    that exists and differs, or if the totals differ, and 2 if the command could not send all of them.
    """
    service.require()
    totals = None if totals_file is None else _read_totals(totals_file)
    if replace_changed and (options["mode"], options["kind"]) != ("import", "accounts"):
        raise click.UsageError("--replace-changed needs accounts, and --mode import.")
    if replace_changed:  # not in the order of other runs, which older journals have
        options["replace"] = "differing"
    options["as"] = _choose_way(file, way, options, has_totals=totals is not None)
    if options["mode"] in ("import", "dry-run") and options["kind"] == "accounts" and not options["team"]:
        raise click.UsageError("--team is required to create accounts.")
    sha256 = digest_file(file)
    options["supplier"] = options["supplier"] or _first_supplier(file)
    runs = Runs()
    with Journal(journal or journal_of(file), COMMAND, runs.add) as opened:
        if opened.is_torn:
            say(f"The last line of {opened.path} was cut off. What it told is sent again.", err=True)
        before = runs.last
        run = runs.begin(opened, make_order(file, sha256, {"url": service.url, **options}), again=again)
        sending = _Sending(file, run, opened, service, goes_on=before is run, as_json=as_json)
        sending.tell_beginning(before)
        try:
            if replace_changed and run.batch_id is None:
                sending.preview(is_sure=is_sure)
            sending.send_batch(totals) if options["as"] == "batch" else sending.send_lines(parallel)
        except ServiceError as error:
            if run.batch_id is None and not run.lines:
                opened.append({"refused": error.code}, to_disk=True)
            raise
        except KeyboardInterrupt:
            raise CannotRunError(
                f"Interrupted. The same command goes on, from {opened.path}. A batch goes on by itself."
            ) from None


def _read_totals(file: Path) -> dict[str, Any]:
    try:
        totals = parse(file.read_bytes())
    except UnexpectedAnswer:
        totals = None
    if not isinstance(totals, dict):
        raise CannotRunError(f"{file} has no control totals: expected a JSON object.")
    return totals


def _choose_way(file: Path, way: str | None, options: dict[str, str | None], *, has_totals: bool) -> str:
    """Return how to send the file. Raise UsageError for what single requests cannot do."""
    only_batch = {
        "--mode dry-run": options["mode"] == "dry-run",
        "--kind": options["kind"] != "accounts",
        "--profile": bool(options["profile"]) and options["mode"] != "validate",
        "--stop-after-errors": bool(options["stop_after_errors"]),
        "--name": bool(options["name"]),
        "--totals": has_totals,
        "--replace-changed": bool(options.get("replace")),
    }
    reasons = [option for option, is_used in only_batch.items() if is_used]
    if way == "single" and reasons:
        raise click.UsageError(f"{reasons[0]} needs --as batch: a single request does not have it.")
    return way or ("single" if not reasons and _is_small(file) else "batch")


def _is_small(file: Path) -> bool:
    """Return whether the file has few lines, and is no larger than they usually are."""
    first = list(islice(read_lines(file), _FEW + 1))
    return len(first) <= _FEW and sum(len(line.text or b"") for line in first) <= _SMALL


def _first_supplier(file: Path) -> str:
    first = Payload.read(next(read_lines(file)))
    supplier = (first.members or {}).get("import_supplier")
    if isinstance(supplier, str):
        return supplier
    raise CannotRunError(
        f"The first line of {file} names no import_supplier. Expected one JSON object in each line. Correct "
        "the file, or name the supplier with --supplier."
    )


class _Sending:
    """The sending of a run. What is done is noted, and what it came to is told."""

    def __init__(
        self, file: Path, run: Run, journal: Journal, service: Service, *, goes_on: bool, as_json: bool
    ) -> None:
        self._file = file
        self._run = run
        self._journal = journal
        self._service = service
        self._goes_on = goes_on
        self._as_json = as_json
        self._options = run.order

    def tell_beginning(self, before: Run | None) -> None:
        """Say on standard error that a run goes on, or that nothing is left of it."""
        if self._run.has_ended:
            text = f"{self._file} was sent on {self._run.began}. Nothing is sent again: that takes --again."
        elif self._goes_on:
            text = f"Going on with the run of {self._run.began}, of which {self._journal.path} tells."
        elif before is not None and before.order["sha256"] != self._options["sha256"]:
            text = f"{self._file} has changed since it was sent on {before.began}. It is sent as it is now."
        else:
            return
        say(text, err=True)

    def send_batch(self, totals: dict[str, Any] | None) -> None:
        """Upload the file, unless that is done, and wait for the batch."""
        with self._service.client() as client:
            if self._run.batch_id is None:
                self._run.batch_id = str(self._upload(client))
                self._journal.append({"batch_id": self._run.batch_id}, to_disk=True)
            if totals is not None:
                client.set_control_totals(self._run.batch_id, **totals)
            batch = _wait(client, self._run.batch_id, "Processing")
        if batch.state in _ENDED and not self._run.has_ended:
            self._journal.append({"ended": batch.state, "counts": batch.counts}, to_disk=True)
        self._tell_end(batch.counts, batch.warning_counts, batch)

    def preview(self, *, is_sure: bool) -> None:
        """Say what the file would replace, as a dry run tells, and ask whether to go on unless `is_sure`."""
        with self._service.client() as client:
            batch_id = self._start(client, "dry-run", uuid4().hex).batch_id
            batch = _wait(client, batch_id, "Previewing")
        say(f"A dry run (batch {batch_id}): {_tell(batch.counts) or 'nothing'}.", err=True)
        if batch.counts.get("FAILED"):
            say(f"What is wrong: migration-client batches results {batch_id} --status FAILED", err=True)
        replaced = batch.counts.get("WOULD_REPLACE", 0)
        if batch.state != "COMPLETED":
            raise CannotRunError(f"The dry run is {batch.state}. Nothing was replaced.")
        if replaced:
            say(f"What differs: migration-client batches results {batch_id} --status WOULD_REPLACE", err=True)
        if not is_sure:
            click.confirm(f"Replace {count(replaced, 'account')}, and send the file?", abort=True, err=True)

    def send_lines(self, parallel: int) -> None:
        """Send the lines that have no outcome yet."""
        if not self._run.has_ended:
            asyncio.run(self._send_lines(parallel))
            self._journal.append({"ended": "COMPLETED", "counts": self._run.counts}, to_disk=True)
        self._tell_end(self._run.counts, self._run.warnings)

    async def _send_lines(self, parallel: int) -> None:
        done = self._run.lines
        total = sum(1 for _ in read_lines(self._file))
        with progress("Sending", total) as bar:
            bar.update(len(done))

            def note(record: Record) -> None:
                self._journal.append(record)
                done[record["line_number"]] = record
                bar.update(1)

            async with self._service.async_client() as client:
                names = ("mode", "supplier", "team", "profile", "extracted_at")
                sender = LineSender(
                    client,
                    book=self._run.book,
                    goes_on=self._goes_on,
                    **{name: self._options[name] for name in names},
                )
                repeated = find_repeated(read_lines(self._file))
                left = (it for it in read_lines(self._file) if it.number not in done)
                payloads = (Payload.read(it, repeated.get(it.number)) for it in left)
                await sender.send_all(payloads, parallel, note)

    def _start(self, client: Client, mode: str, key: str) -> BatchProgressAnswer:
        """Upload the file, unless that was done with this key, and return its batch in this mode."""
        names = ("profile", "extracted_at", "name", "stop_after_errors", "replace")
        with progress(f"Sending {self._file.name}", self._file.stat().st_size) as bar:
            return client.start_batch(
                self._file,
                mode=mode,
                import_supplier=self._options["supplier"],
                operations_team_name=self._options["team"],
                kind=self._options["kind"],
                idempotency_key=key,
                progress=lambda sent, _: bar.update(sent - bar.pos),
                **{name: self._options.get(name) for name in names},
            )

    def _upload(self, client: Client) -> str:
        ahead = timedelta(seconds=probe(client).clock_ahead or 0)
        begun = datetime.now(UTC) - ahead - _INACCURACY
        batch = self._start(client, self._options["mode"], idempotency_key(self._run.book, "file", {}))
        if batch.file_sha256 != self._options["sha256"]:
            raise CannotRunError(
                f"{self._file} was changed while it was being sent as batch {batch.batch_id}. Cancel that "
                "batch, and send the file again."
            )
        if batch.created_at < begun and not self._goes_on:
            say(
                f"The same content was sent on {show_moment(batch.created_at)} as batch {batch.batch_id} "
                f"({batch.file_name}). Nothing is sent again: that takes --again.",
                err=True,
            )
        return batch.batch_id

    def _tell_end(
        self, counts: dict[str, int], warnings: dict[str, int], batch: BatchProgressAnswer | None = None
    ) -> None:
        """Print what came of the lines. Exit with 1 if not all of them came to what was asked for."""
        state, reason = (batch.state, batch.reason) if batch else ("COMPLETED", None)
        off = batch.control_totals_differing if batch else None
        differing = warnings.get(_DIFFERS, 0) if counts.get(_EXISTS) else 0
        if self._as_json:
            record: dict[str, Any] = {"file": str(self._file), "journal": str(self._journal.path)}
            record |= {"as": self._options["as"], "batch_id": self._run.batch_id, "state": state}
            record |= {"reason": reason, "lines": sum(counts.values()), "counts": counts}
            show_json(record | {"warnings": warnings, "control_totals_differing": off})
        else:
            where = f" (batch {batch.batch_id})" if batch else ""
            say(f"{count(sum(counts.values()), 'line')}: {_tell(counts) or 'nothing'}{where}.")
            if state != "COMPLETED":
                say(f"The batch is {state}{f': {reason}' if reason else ''}. {_HOW_ON.get(state, '')}")
            if differing:
                verbs = "exists and differs" if differing == 1 else "exist and differ"
                say(f"{differing} {verbs}: nothing was changed. That takes --replace-changed.")
            if warnings:
                say(f"Lines with warnings: {_tell(warnings)}. See migration-client results {self._target}")
            if off:
                verb = "differs" if off == 1 else "differ"
                say(
                    f"{count(off, 'control total')} {verb}: migration-client batches control-totals "
                    f"{self._run.batch_id}"
                )
            if counts.get("FAILED"):
                say(
                    f"What is wrong: migration-client results {self._target} --status FAILED\n"
                    f"The failed lines as they were sent: migration-client failed {self._target}"
                )
        if counts.get("FAILED") or state != "COMPLETED" or differing or off:
            click.get_current_context().exit(1)

    @property
    def _target(self) -> str:
        beside = self._journal.path == journal_of(self._file)
        return str(self._file if beside else self._journal.path)


def _wait(client: Client, batch_id: str, label: str) -> BatchProgressAnswer:
    """Show the progress of a batch until it ends or is paused, and return it."""
    with progress(label, client.get_batch(batch_id).lines) as bar:
        return client.wait_for_batch(batch_id, progress=lambda it: bar.update(count_done(it) - bar.pos))


def _tell(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items() if number)
