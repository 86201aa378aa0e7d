"""The commands of pages about operators and the console, performed at the service in this process.

    migration-service …    the operators' command; `<<< text` at the end is its input, "" none
    see PATH               opens a page of the console, `zie PATH` in Dutch, `whole PATH` with menus
    fetch PATH             opens a file of the console
    keep FILE PATH         keeps it under this name, and says which one it has
    send PATH NAME=VALUE…  sends the form to this path of the page that was shown last, or else of its own
                           page, with these values: `@FILE` is a file, `-` nothing
    call METHOD PATH WORD… calls the interface below /v1/data-import with the supplier's token, or a path that
                           begins with /v1/. A word `Name:value` is a header, `@FILE` the body, any other word
                           the body, as JSON
    sql STATEMENT          reads or changes rows behind the service's back, in the order of their texts unless
                           it has one
    find TEXT              lists the tables that have this text in any column
    as NAME                the operator of the following commands, who logs in if need be; the supplier, by
                           its code or one of its keys, of the following calls, or nobody
    work                   does everything that workers and sweeps have to do at this moment
    set NAME=VALUE…        lets web processes have other settings, whose values are JSON
    later DAYS             lets the windows of waves see another day

`| COMMAND` is for a shell, and so is any other command; the status of `call` is always shown. What is
numbered above can be used: `<id 1>`, and `<next year>`, `<yesterday>`, `<today>` and `<tomorrow>`.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select, text
from werkzeug.datastructures import FileStorage
from werkzeug.test import TestResponse

from migration_service.blueprints.requests.resources import resources
from migration_service.models import AccountImportProcess
from migration_service.services.certificates.making import certify_piece
from migration_service.services.emails.customer_emails import release_due
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.processing.signals import notify
from migration_service.tasks.jobs import COMPARISONS, GO_LIVES, UNDOS
from support.batch_client import BatchClient
from support.commands import Run
from support.console_client import ConsoleClient
from support.marked_person import find_mark
from support.supplier_client import SupplierClient
from support.undo_client import work_off
from support.wave_client import WaveClient
from transcripts.page_text import find_form, write_page
from transcripts.transcript import NAMED, find_numbered

#: What differs on pages of the console. Its windows open by a clock of March 2026.
NAMED_IN_CONSOLE = NAMED | {
    "<a time>": re.compile(r"\b\d{1,2} (?!Mar 2026)\w{3}\.? \d{4} \d\d:\d\d(:\d\d)?\b|\b\d\d:\d\d:\d\d\b"),
    "<a day>": re.compile(r"\b20(2[7-9]|[3-9]\d)-\d\d-\d\d\b|\b2026-(0[4-9]|1\d)-\d\d\b"),
    "…<end of id>": re.compile("…[0-9a-f]{12}"),
    "<a while>": re.compile(
        r"\b(in )?\d+ (second|minu)\w* (ago|geleden)\b"
        r"|\b\d+ s(?= ago| geleden)|(?<=about )\d+ s\b|(?<=ongeveer )\d+ s\b"
    ),
    "<rate>": re.compile(r'\b[\d.,]+(?= (lines|regels)/)|(?<=},"rate":)(null|[\d.]+)'),
}
_DUTCH = {"Accept-Language": "nl"}
_OPERATING = re.compile(r"([A-Z_]+=\S* )*migration-service ")
_HEADER = re.compile(r"[A-Z][A-Za-z-]+:")
#: Headers of every answer. Their tests are those of HTTP.
_ALWAYS_SENT = {
    *("Content-Length", "X-Request-ID", "X-Content-Type-Options", "Cache-Control", "Vary"),
    *("Referrer-Policy", "Content-Security-Policy"),
}
#: What stands between two objects of a list in JSON. Each object has a line.
_OBJECTS, _BESIDE = re.compile(r", ?(?=\{)"), ",\n  "
#: What workers and sweeps write into whenever they have got on.
_WRITTEN = (
    "event",
    "audit_entry",
    "account_import_process",
    "batch",
    "batch_chunk",
    "wave",
    "compared_piece",
    "customer_email",
)
_VERSIONS = text(
    " UNION ALL ".join(f"SELECT count(*), max(xmin::text::bigint) FROM {it}" for it in _WRITTEN)  # noqa: S608
)
_SAID = re.compile(r'<div class="alert [^"]*" role="status">.*?</div>')


class Desk:
    """Where operators work. `clients` has a console for each name; the first one is used until `as`."""

    def __init__(
        self,
        run: Run,
        clients: dict[str, ConsoleClient],
        make_supplier: Callable[[str], SupplierClient],
        waves: WaveClient,
        folder: Path,
        *,
        patch: pytest.MonkeyPatch,
        key: str,
    ) -> None:
        self._run = run
        self._suppliers = {waves.supplier.code: waves.supplier, "nobody": replace(waves.supplier, token="")}
        self._make_supplier = make_supplier
        self._supplier = waves.supplier
        self._clients = clients
        self._operator = next(iter(clients))
        self._logged_in: set[str] = set()
        self._waves = waves
        self._folder = folder
        self._patch = patch
        self._key = key
        #: The path and the text of the page that was shown last.
        self._shown = "", ""
        self._commands: dict[str, Callable[..., tuple[str, int]]] = {
            "see": self._see,
            "zie": lambda path: self._see(path, headers=_DUTCH),
            "whole": lambda path: self._see(path, whole=True),
            "fetch": self._fetch,
            "keep": self._keep,
            "send": self._send,
            "call": self._call,
            "as": self._change,
            "sql": self._spoil,
            "find": lambda mark: (" ".join(find_mark(waves.batches.resources.Session, mark)) + "\n", 0),
            "work": self._work,
            "set": self._set,
            "later": self._wait,
        }

    @property
    def _console(self) -> ConsoleClient:
        """The console of the operator, who logs in at the first command that needs it."""
        client = self._clients[self._operator]
        if self._operator not in self._logged_in:
            assert client.log_in(self._operator).status_code == 303
            self._logged_in.add(self._operator)
        return client

    def perform(self, commands: Iterable[str]) -> Iterator[tuple[str, int]]:
        """Yield what each command prints, and its exit status."""
        printed = ""
        for numbered in commands:
            now = datetime.now(UTC)
            line = numbered.replace("<next year>", str(now.year + 1))
            for days, name in enumerate(("<yesterday>", "<today>", "<tomorrow>"), start=-1):
                line = line.replace(name, str((now + timedelta(days)).date()))
            for name, value in find_numbered(printed).items():
                line = line.replace(name, value)
            command, _, filters = line.partition(" | ")
            name, _, rest = command.partition(" ")
            if _OPERATING.match(command):
                done = self._operate(command)
            elif name in self._commands:
                done = self._commands[name](*shlex.split(rest))
            else:
                done = self._ask_shell(line)
                filters = ""
            if filters:
                filtered, code = self._ask_shell(filters, done[0])
                # Whatever is left out of an answer, its status is not.
                status = done[0].partition("\n")[0]
                if name == "call" and not re.match(rf"{status}\b", filtered):
                    filtered = f"{status}\n{filtered}"
                done = filtered, code
            printed += f"{done[0]}\n"
            yield done

    def _ask_shell(self, command: str, given: str = "") -> tuple[str, int]:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self._folder,
            env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr, done.returncode

    def _operate(self, command: str) -> tuple[str, int]:
        command, _, given = command.partition(" <<< ")
        words = shlex.split(command)
        place = words.index("migration-service")
        variables = dict(it.split("=", 1) for it in words[:place])
        lines = "".join(f"{it}\n" for it in shlex.split(given))
        arguments = [self._path(it) for it in words[place + 1 :]]
        done = self._run(*arguments, given=lines, **variables)
        return done.output, done.exit_code

    def _path(self, word: str) -> str:
        return str(self._folder / word[2:]) if word.startswith("./") else word

    def _see(self, path: str, *, whole: bool = False, **options: Any) -> tuple[str, int]:
        return self._write(path, self._console.get(path, **options), whole=whole)

    def _fetch(self, path: str) -> tuple[str, int]:
        answer = self._console.get(path)
        return answer.text, 0 if answer.status_code == 200 else answer.status_code // 100

    def _keep(self, name: str, path: str) -> tuple[str, int]:
        answer = self._console.get(path)
        (self._folder / name).write_bytes(answer.get_data())
        return f"{answer.headers['Content-Disposition']}\n", 0

    def _send(self, path: str, *given: str) -> tuple[str, int]:
        form = find_form(self._shown[1], path, *[""] * (path == self._shown[0]))
        form = form or find_form(self._console.get(path).text, path, "")
        if form is None:
            return "There is no such form.\n", 1
        sent: dict[str, list[Any]] = {}
        for name, value in (it.split("=", 1) for it in given):
            values = sent.setdefault(name, [])
            if value.startswith("@"):
                values.append(FileStorage(BytesIO((self._folder / value[1:]).read_bytes()), value[1:]))
            elif value != "-":
                values.append(value.replace("\\n", "\r\n"))
        answer = self._console.post(path, form.fields | sent)
        if not answer.location:
            return self._write(path, answer)
        self._shown = "", ""
        page = self._console.get(answer.location.removeprefix("/console")).text
        said = [write_page(it[0]) for it in _SAID.finditer(page)]
        return f"-> {answer.location.removeprefix('/console')}\n{''.join(said)}", 0

    def _call(self, method: str, path: str, *words: str) -> tuple[str, int]:
        headers = dict(it.split(":", 1) for it in words if _HEADER.match(it))
        body: str | bytes | None = None
        for word in (it for it in words if not _HEADER.match(it)):
            body = (self._folder / word[1:]).read_bytes() if word.startswith("@") else word
        if body is not None:
            headers = {"Content-Type": "application/json"} | headers
        answer = self._supplier._call(method, path, headers, data=body)
        headers = {name: it for name, it in answer.headers if name not in _ALWAYS_SENT}
        sent = [f"{name}: {it}" for name, it in headers.items() if it != "application/json"]
        text = _OBJECTS.sub(_BESIDE, answer.text).removesuffix("\n")
        return "\n".join([str(answer.status_code), *sent, *[text] * bool(text)]) + "\n", 0

    def _write(self, path: str, answer: TestResponse, *, whole: bool = False) -> tuple[str, int]:
        self._shown = path, answer.text
        moved = f"-> {answer.location.removeprefix('/console')}\n" if answer.location else ""
        status = 0 if answer.status_code < 400 else answer.status_code // 100
        return moved or write_page(answer.text, whole=whole), status

    def _change(self, name: str) -> tuple[str, int]:
        if name in self._clients:
            self._operator = name
        else:
            if name.startswith("ami_"):
                self._suppliers[name] = replace(self._supplier, api_key=name)
                self._suppliers[name].token = self._suppliers[name].obtain_token()
            elif name not in self._suppliers:
                self._suppliers[name] = self._make_supplier(name)
            self._supplier = self._suppliers[name]
        return "", 0

    def _work(self) -> tuple[str, int]:
        resources = self._waves.batches.resources
        written = None
        while written != (written := self._read_versions()):
            self._waves.sweep()
            for supplier in {it.code: it for it in self._suppliers.values()}.values():
                BatchClient(supplier, resources).work()
            self._create()
            with resources.Session.begin() as session:
                release_due(session)
            for table, do_piece in (
                *((it.table, it.do_piece) for it in (UNDOS, COMPARISONS, GO_LIVES)),
                ("certificate", lambda session, it: certify_piece(session, it, self._key)),
            ):
                for job_id in self._unfinished(table):
                    work_off(resources.Session, do_piece, job_id)
        return "", 0

    def _read_versions(self) -> list[Any]:
        """Return what differs after anything was written."""
        with self._waves.batches.resources.Session() as session:
            return [tuple(it) for it in session.execute(_VERSIONS)]

    def _create(self) -> None:
        resources = self._waves.batches.resources
        with resources.Session() as session:
            attempt = AccountImportProcess.attempt_id
            running = session.scalars(select(attempt).where(attempt.is_not(None)).order_by(attempt)).all()
        done = {it: perform_attempt(resources.Session, it) for it in running if it}
        numbers = {it: ended.service_account_number for it, ended in done.items() if ended}
        notify(resources.redis, resources.slots, numbers)

    def _unfinished(self, table: str) -> list[UUID]:
        with self._waves.batches.resources.Session() as session:
            found = session.execute(text(f"SELECT id FROM {table} WHERE finished_at IS NULL ORDER BY id"))  # noqa: S608
            return [it.id for it in found]

    def _spoil(self, statement: str) -> tuple[str, int]:
        with self._waves.batches.resources.Session.begin() as session:
            found = session.connection().execute(text(statement))
            rows = found.all() if found.returns_rows else []
        lines = ["\t".join(str(it) for it in row) + "\n" for row in rows]
        return "".join(lines if "ORDER BY" in statement else sorted(lines)), 0

    def _set(self, *given: str) -> tuple[str, int]:
        app = self._waves.supplier.app
        with app.app_context():
            shared = resources()
        values = {name: json.loads(value) for name, value in (it.split("=", 1) for it in given)}
        changed = replace(shared, settings=replace(shared.settings, **values))
        self._patch.setitem(app.extensions, "migration_service", changed)
        return "", 0

    def _wait(self, days: str) -> tuple[str, int]:
        self._waves.now += timedelta(days=float(days))
        return "", 0
