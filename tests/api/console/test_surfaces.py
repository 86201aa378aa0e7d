"""Every surface answers the same questions with the same numbers, at each moment of a running programme."""

import csv
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from click.testing import CliRunner
from flask import Flask
from sqlalchemy import select, text, update
from sqlalchemy.orm import Session
from werkzeug.serving import make_server
from werkzeug.wsgi import get_input_stream

from migration_payloads.schemas.json import encode_json
from migration_service.blueprints.requests.resources import resources
from migration_service.models import Account, Batch, BatchChunk, Comparison, Ledger
from migration_service.schemas.events import EventType
from migration_service.services.accounts.erasure import erase_account
from migration_service.services.batches.intake import upload
from migration_service.services.batches.work import chunks, execution
from migration_service.services.batches.work.feed import recover_chunks
from migration_service.services.imports.skipping import skip_accounts
from migration_service.services.reconciliation import comparisons, created_accounts
from migration_service.services.reconciliation.verdict import SENTENCES
from migration_service.services.reporting.report import make_report
from migration_service.services.reporting.report_page import render_report
from migration_service.services.reporting.report_subject import find_subject
from migration_service.services.reporting.retention import remove_batch_lines
from migration_service.services.undo.open_work import OPEN_WORK, find_open_work
from migration_service.states import Problem
from migration_service.tasks.jobs import COMPARISONS, SECONDS, sweep_jobs
from migration_service.tasks.names import COMPARE
from migration_service_client.command import main as command
from support.batch_client import BatchClient, counts
from support.console_client import ConsoleClient, text_of
from support.events import read_feed
from support.messages import noted_messages
from support.undo_client import UndoClient
from support.wave_client import WaveClient

_SENT = ("sent", "created", "staged", "refused", "waiting", "skipped", "acknowledged", "open")
_GO_LIVE = {
    "Lines that were open when they were removed": Problem.REMOVED,
    "Files that do not match their control totals": Problem.CONTROL_TOTALS,
    "Created accounts that differ": Problem.DIFFERING,
    "Created accounts that have not been compared: reconcile the supplier": Problem.NOT_COMPARED,
    "Created accounts that cannot be compared, because the staged payloads were removed": (
        Problem.NOT_COMPARABLE
    ),
    "Totals of files that are not accounted for": Problem.UNACCOUNTED,
    "Accounts that differ from the figures of the old system": Problem.OLD_FIGURES,
}


_IN_TABLES = text("""
    SELECT count(account.id), count(*) FILTER (WHERE state IN ('PENDING', 'IN_PROGRESS'))
    FROM account_import_process AS process
    LEFT JOIN account ON account.account_import_process_id = process.id
    WHERE process.import_supplier_id = :id
""")


@dataclass
class Programme:
    """A supplier, and everything that tells how its migration is."""

    batches: BatchClient
    console: ConsoleClient
    #: Where the command finds the service.
    url: str

    @property
    def code(self) -> str:
        return self.batches.supplier.code

    def ask(self, **problems: int) -> dict[str, Any]:
        """Ask all surfaces, and compare their answers with each other and with the problems expected."""
        answer = self.batches.supplier.reconcile()
        assert {it["problem"]: it["number"] for it in answer["problems"]} == problems
        assert (answer["clean"], answer["differing"]) == (not problems, problems.get("DIFFERING", 0))
        assert answer["complete"] is not bool(problems.keys() & {"OPEN", "REMOVED"})
        assert len(answer["open"]) == answer["sent"]["open"] == problems.get("OPEN", 0)
        sentences = [SENTENCES[Problem(it)][n != 1] % {"num": n} for it, n in problems.items()]
        self._ask_console(answer, sentences)
        self._ask_report(answer, sentences)
        self._ask_go_live(answer, problems)
        self._ask_command(answer)
        self._ask_lists(answer["sent"])
        self._ask_events()
        return answer

    def _ask_console(self, answer: dict[str, Any], sentences: list[str]) -> None:
        page = text_of(self.console.get(f"/suppliers/{self.code}/reconciliation/").text)
        assert all(sentence in page for sentence in sentences)
        told = " ".join(f"{name} {answer['sent'][name]}" for name in ("sent", "created", "staged", "refused"))
        assert told in page
        assert "Nothing is open." in page or sentences
        differing = self._rows(f"/suppliers/{self.code}/reconciliation/differences.csv")
        numbers = {it["external_account_number"] for it in answer["differences"]}
        assert {row["external_account_number"] for row in differing} == numbers
        page = self.console.get(f"/suppliers/{self.code}/sign-off/").text
        self._ask_sum(answer["sent"], page)
        sign_off = text_of(page)
        assert all(sentence in sign_off for sentence in sentences)
        status = (
            f"The exit status of migration-client reconcile {self.code} is {0 if answer['clean'] else 1}."
        )
        assert status in sign_off
        supplier = text_of(self.console.get(f"/suppliers/{self.code}/").text)
        assert all(sentence in supplier for sentence in sentences)
        bar = f"sent {answer['sent']['sent']} = created {answer['sent']['created']} "
        assert bar in supplier
        assert bar in sign_off
        is_done = answer["clean"] and answer["sent"]["created"] > 0
        assert ("Reconcile done" in supplier) is is_done

    def _ask_report(self, answer: dict[str, Any], sentences: list[str]) -> None:
        sessions = self.batches.supplier.Session
        with sessions.begin() as session:
            subject = find_subject(session, self.code, organisation_id=None)
        page = text_of(render_report(make_report(sessions, subject), stylesheet=""))
        assert (" ".join(sentences) or "Nothing is open, and nothing differs.") in page
        numbers = " ".join(f"{answer['sent'][name]:,}" for name in _SENT)
        assert f"Acknowledged Open {numbers}" in page
        assert "No line of a batch failed." not in page
        stays_out = self._rows(f"/suppliers/{self.code}/acknowledgements/list.csv")
        told = self.batches.supplier.get(f"/reconciliation/{self.code}/acknowledgements/").json or []
        assert _acknowledged_in(page).count("Stays out.") == len(stays_out) == len(told)

    def _ask_go_live(self, answer: dict[str, Any], problems: dict[str, int]) -> None:
        with self.batches.supplier.Session() as session:
            work = dict(find_open_work(session, self.code))
        assert set(_GO_LIVE.values()) == set(Problem) - {Problem.OPEN}
        for sentence, problem in _GO_LIVE.items():
            assert work.get(sentence, 0) == problems.get(problem, 0), sentence
        assert sum(work.get(it, 0) for it in OPEN_WORK[:2]) == answer["sent"]["open"]

    def _ask_command(self, answer: dict[str, Any]) -> None:
        environment = {
            "MIGRATION_CLIENT_URL": self.url,
            "MIGRATION_CLIENT_KEY": self.batches.supplier.api_key,
        }
        for option, is_clean in (("--full", answer["clean"]), ("--created-only", answer["created_clean"])):
            done = CliRunner(env=environment).invoke(command, ["reconcile", self.code, option, "--json"])
            assert done.exit_code == int(not is_clean), done.output
            told = json.loads(done.stdout)
            assert told["sent"] == answer["sent"]
            assert len(told["open"]) == len(answer["open"])

    def _ask_lists(self, sent: dict[str, int]) -> None:
        """Compare the numbers with what the tables have, and with all lists, files and counts of accounts."""
        supplier, code = self.batches.supplier, self.code
        states = (supplier.get(f"/import-suppliers/{code}/").json or {})["counts"]
        (row,) = self._rows(f"/list.csv?supplier={code}")
        path = f"-account-import-processes/{code}/"
        with supplier.Session() as session:
            mine = {"id": supplier.known().id}
            created, staged = session.execute(_IN_TABLES, mine).one()
        found = {
            "created in the tables": created,
            "created by the list": sum(map(len, supplier.pages(f"/imported{path}"))),
            "created by state": states["IMPORTED"],
            "created of the overview": int(row["IMPORTED"]),
            "created of the id map": len(self._rows(f"/suppliers/{code}/id-map.csv")),
            "staged in the tables": staged,
            "staged by the list": sum(map(len, supplier.pages(f"/pending{path}"))) - states["SKIPPED"],
            "staged by state": states["PENDING"] + states["IN_PROGRESS"],
            "staged of the overview": int(row["left"]),
            "open of the console": len(self._rows(f"/suppliers/{code}/open/list.csv")),
        }
        assert found == {name: sent[name.partition(" ")[0]] for name in found}

    def _ask_sum(self, sent: dict[str, int], page: str) -> None:
        """Add up what became of all that was sent, and count what is behind each part."""
        part = r'<span class="dot[^>]*></span>(?:<a href="/console([^"]*)">)?(\w+)(?:</a>)? <b>(\d+)</b>'
        parts = re.findall(part, page)
        assert [name for _, name, _ in parts] == ["created", "acknowledged", "skipped", "open"]
        assert sum(int(number) for _, _, number in parts) == sent["sent"]
        for link, name, number in parts:
            path, _, query = link.partition("?")
            file = f"{path}list.csv?{query}" if path.endswith("/") else path
            assert not link or len(self._rows(file)) == int(number), name

    def _rows(self, path: str) -> list[dict[str, str]]:
        """Return the rows of a CSV file of the console."""
        return list(csv.DictReader(self.console.see(path).splitlines()))

    def _ask_events(self) -> None:
        """Compare what was told of each batch with its counts, line by line and at its end."""
        lines: dict[str, dict[int, str]] = {}
        ended: dict[str, dict[str, int]] = {}
        for event in read_feed(self.batches.supplier):
            data = event["data"]
            if event["type"] == EventType.BATCH_PROGRESSED:
                lines.setdefault(data["batch_id"], {}).update(
                    {line["line_number"]: line["status"] for line in data["lines"]}
                )
            elif event["type"] == EventType.BATCH_ENDED:
                ended[data["batch_id"]] = data["counts"]
        found = self.batches.supplier.get(f"/batches/?import_supplier={self.code}").json
        assert isinstance(found, list)
        for batch in found:
            told = Counter(lines.get(batch["batch_id"], {}).values())
            assert told == {status: number for status, number in counts(batch).items() if status != "PENDING"}
            assert ended.get(batch["batch_id"], counts(batch)) == counts(batch)
            assert (batch["batch_id"] in ended) is (batch["finished_at"] is not None)


@pytest.fixture
def programme(app: Flask, batches: BatchClient, administrator: ConsoleClient) -> Iterator[Programme]:
    def bounded(environ: dict[str, Any], start_response: Any) -> Any:
        # The service reads what is left of a body, of which this server does not know the end.
        return app(environ | {"wsgi.input": get_input_stream(environ)}, start_response)

    server = make_server("127.0.0.1", 0, bounded, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield Programme(batches, administrator, f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    thread.join()
    server.server_close()


def _payments(batches: BatchClient, *accounts: dict[str, Any]) -> list[dict[str, Any]]:
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    paid = {"amount": "500", "type": "PAYMENT", "transaction_date": day}
    return [
        batches.line(it["external_account_number"], transactions=[paid | {"transaction_id": f"paid {place}"}])
        for place, it in enumerate(accounts)
    ]


def _acknowledge(batches: BatchClient, **body: Any) -> None:
    path = f"/reconciliation/{batches.supplier.code}/acknowledgements/"
    answer = batches.supplier.post(path, json={"reason": "Stays out."} | body)
    assert answer.status_code == 201, answer.text


def _part(answer: dict[str, Any], part: str) -> Decimal:
    totals = answer["book"]["totals"]
    return next((Decimal(it[part]) for it in totals if it["measure"] == "accounts"), Decimal(0))


@pytest.mark.long
def test_all_surfaces_agree_while_a_programme_runs(programme: Programme, undos: UndoClient) -> None:
    batches = programme.batches
    supplier = batches.supplier
    programme.ask()
    first, second, third, refused, *late = supplier.accounts(8)
    number = refused["external_account_number"]
    file = batches.run([first, second, third, refused | {"customers": [{}]}])["batch_id"]
    programme.ask(OPEN=1)
    _acknowledge(batches, external_account_numbers=[number])
    assert "Stays out." in self_report(programme)
    programme.ask()
    batches.run([refused])
    programme.ask()
    assert "Stays out." not in self_report(programme)

    supplier.put(f"/batches/{file}/control-totals/", {"accounts": 7})
    programme.ask(CONTROL_TOTALS=1)
    batches.run([late[0] | {"customers": [{}]}], "validate")
    programme.ask(CONTROL_TOTALS=1)  # a later file does not hide it
    supplier.put(f"/batches/{file}/control-totals/", {"accounts": 4})
    programme.ask()

    points = sum(len(it["meter_points"]) for it in third["supply_addresses"])
    for number_of_points, problems in ((points + 1, {"OLD_FIGURES": 1}), (points, {})):
        figures = {"external_account_number": third["external_account_number"]}
        line = encode_json(figures | {"meter_points": number_of_points})
        path = f"/reconciliation/{supplier.code}/old-figures/"
        assert supplier.put(path, data=line).status_code == 200
        programme.ask(**problems)

    killed, *late = late
    with patch.object(upload, "CHUNK_LINES", 1):
        batches.start([killed, *supplier.accounts(1)])
    finished, lost = batches.dispatch()
    assert execution.perform_chunk(supplier.Session, batches.resources.slots, finished, reserve=0)
    with pytest.raises(KeyboardInterrupt), patch.object(execution, "work_on_chunk", _work_and_be_killed):
        execution.perform_chunk(supplier.Session, batches.resources.slots, lost, reserve=0)
    assert programme.ask(OPEN=1)["sent"]["created_version_waits"] == 1
    with supplier.Session.begin() as session:
        chunk = session.get_one(BatchChunk, (lost.batch_id, lost.first_line))
        chunk.dispatched_at = datetime(2026, 1, 1, tzinfo=UTC)
        session.flush()
        recover_chunks(session)
    batches.work()
    programme.ask()

    paused = batches.start(late[:2])
    batches.change(paused, "pause")
    answer = programme.ask(OPEN=2)
    assert answer["sent"]["waiting"] == _part(answer, "waiting") == 2
    batches.change(paused, "cancel")
    programme.ask(OPEN=2)
    with supplier.Session.begin() as session:
        skip_accounts(session, supplier.known().id, [late[0]["external_account_number"]])
        erase_account(session, supplier.known(), late[1]["external_account_number"], reason="Asked for.")
    answer = programme.ask()
    assert answer["sent"]["skipped"] == _part(answer, "skipped") == 2

    payments = batches.start(_payments(batches, first, second), kind="transactions")
    batches.change(payments, "pause")
    assert programme.ask(OPEN=2)["sent"]["added_lines_waiting"] == 2
    batches.change(payments, "resume")
    batches.work()
    programme.ask()
    undo_id = undos.start(first["external_account_number"])
    undos.change(undo_id, overrides=["data_added_later"])
    undos.work(undo_id)
    programme.ask(OPEN=1, DIFFERING=1)
    with supplier.Session.begin() as session:
        skip_accounts(session, supplier.known().id, [first["external_account_number"]])
    answer = programme.ask(DIFFERING=1)
    (lost,) = answer["differences"]
    assert lost["external_account_number"] == first["external_account_number"]
    assert [it["measure"] for it in lost["differences"]] == ["added amount of PAYMENT", "added transactions"]
    _acknowledge(batches, batch=payments, line_numbers=[1])
    programme.ask()

    unknown = batches.run(_payments(batches, {"external_account_number": "unknown"}), kind="transactions")
    programme.ask(OPEN=1)
    _acknowledge(batches, batch=unknown["batch_id"])
    programme.ask()

    open_one = batches.run([late[2] | {"customers": [{}]}])["batch_id"]
    programme.ask(OPEN=1)
    with supplier.Session.begin() as session:
        old = datetime(2020, 1, 1, tzinfo=UTC)
        session.execute(update(Batch).where(Batch.id == UUID(open_one)).values(finished_at=old))
        while remove_batch_lines(session, after_days=30):
            pass
    programme.ask(REMOVED=1)


def test_all_surfaces_agree_about_accounts_of_which_newer_versions_are_sent(programme: Programme) -> None:
    batches = programme.batches
    created, staged, refused = batches.supplier.accounts(3)
    batches.run([created])
    batches.run([staged], "stage")
    batches.run([refused | {"customers": [{}]}])
    programme.ask(OPEN=2)
    _acknowledge(batches, external_account_numbers=[refused["external_account_number"]])
    programme.ask(OPEN=1)
    newer = [it | {"billing_address1": "Elsewhere 1"} for it in (created, staged)]
    waiting = batches.start(newer, "stage")
    batches.change(waiting, "pause")
    answer = programme.ask(OPEN=2)
    assert [answer["sent"][it] for it in ("sent", "created", "staged", "waiting")] == [3, 1, 1, 0]
    assert [it["reason"] for it in answer["open"]] == ["WAITING", "WAITING"]
    assert [int(_part(answer, it)) for it in ("created", "staged", "waiting")] == [1, 1, 0]
    of_batch = batches.supplier.reconcile(f"?batch={waiting}")["sent"]
    assert [of_batch[it] for it in ("sent", "created", "staged", "open")] == [2, 1, 1, 2]
    _acknowledge(batches, external_account_numbers=[it["external_account_number"] for it in newer])
    programme.ask(OPEN=1)
    batches.run([it | {"customers": [{}]} for it in newer], "stage")
    programme.ask(OPEN=2)
    _acknowledge(batches, external_account_numbers=[created["external_account_number"]])
    answer = programme.ask(OPEN=1)
    assert (answer["sent"]["acknowledged"], answer["sent"]["created_acknowledged"]) == (2, 1)
    batches.run([staged, refused])
    programme.ask()


def self_report(programme: Programme) -> str:
    """Return the part of the report about what is acknowledged, which is empty if nothing is."""
    sessions = programme.batches.supplier.Session
    with sessions.begin() as session:
        subject = find_subject(session, programme.code, organisation_id=None)
    return _acknowledged_in(text_of(render_report(make_report(sessions, subject), stylesheet="")))


def _acknowledged_in(report: str) -> str:
    return report.partition("Acknowledged: what stays out")[2].partition("What became of each total")[0]


def test_all_surfaces_agree_about_a_wave_that_is_undone_and_imported_again(
    programme: Programme, waves: WaveClient, undos: UndoClient
) -> None:
    numbers = waves.stage(3)
    plan = waves.plan({"rest": True})
    assert waves.act(plan, 1, "start").status_code == 200
    waves.run()
    batch_id = str(waves.batch_id(plan, 1))

    def ask(state: str, **problems: int) -> None:
        programme.ask(**problems)
        (wave,) = waves.get(plan)["waves"]
        found = programme.batches.supplier.reconcile(f"?batch={batch_id}")
        assert {it["problem"]: it["number"] for it in found["problems"]} == problems
        assert (wave["state"], wave["differing"], wave["open"]) == (state, 0, problems.get("OPEN", 0))

    ask("CLEAN")
    undos.run(batch=batch_id)
    waves.run()
    ask("DIFFERS", OPEN=len(numbers))
    answer = programme.batches.post(None, source="pending")
    assert answer.status_code == 202, answer.text
    programme.batches.work()
    assert waves.act(plan, 1, "reconcile").status_code == 200
    waves.run()
    ask("CLEAN")


def test_a_comparison_that_takes_longer_than_a_request_is_finished_by_workers(
    app: Flask, batches: BatchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with app.app_context():
        celery = resources().celery
    celery.set_current()
    celery.loader.import_default_modules()
    supplier = batches.supplier
    batch_id = batches.run(supplier.accounts(5))["batch_id"]
    with supplier.Session.begin() as session:
        ledgers = select(Account.id).where(Account.import_supplier_id == supplier.known().id)
        session.execute(update(Ledger).where(Ledger.account_pk.in_(ledgers)).values(ledger_code="OTHER"))
    monkeypatch.setattr("migration_service.blueprints.reconciliation.WAIT", 0)
    monkeypatch.setattr(created_accounts, "PAGE", 2)
    path = f"/reconciliation/{supplier.code}/"
    begun = supplier.get(path)
    assert (begun.status_code, begun.headers["Retry-After"]) == (202, "5")
    comparison = (begun.json or {})["comparison"]
    assert (comparison["items"], comparison["done"]) == (5, 2)
    again = (supplier.get(path).json or {})["comparison"]
    assert (again["id"], again["done"]) == (comparison["id"], 4), "whoever asks meanwhile joins it"
    assert again["time_left"] is not None

    def take_too_long(session: Session, _comparison_id: UUID) -> None:
        session.execute(text("SET LOCAL statement_timeout = 1"))
        session.execute(text("SELECT pg_sleep(10)"))

    with patch.object(comparisons, "do_piece", take_too_long):
        assert supplier.get(path).status_code == 202
    message = (COMPARE, (comparison["id"],))
    with noted_messages() as published:
        sweep_jobs()
        assert published == [], "somebody did a piece just now"
        with supplier.Session.begin() as session:
            mine = update(Comparison).where(Comparison.id == UUID(comparison["id"]))
            session.execute(mine.values(dispatched_at=None))
        sweep_jobs()
        assert published == [message]
        killed = patch.object(comparisons, "encode_json", side_effect=KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt), killed:
            celery.tasks[COMPARE].run(comparison["id"])
        with patch.dict(SECONDS, {COMPARISONS: 0}):
            assert celery.tasks[COMPARE].run(comparison["id"]) == "worked"
        assert published == [message, message]
        assert celery.tasks[COMPARE].run(comparison["id"]) == "over"
    assert celery.tasks[COMPARE].run(comparison["id"]) == "over"
    location = begun.headers["Location"].partition("/v1/data-import")[2]
    found = supplier.get(location).json or {}
    assert (found["differing"], found["compared"], len(found["differences"])) == (5, 5, 5)
    wrong = supplier.get(f"{path}?comparison=none")
    assert (wrong.status_code, (wrong.json or {})["errors"][0]["attr"]) == (400, "comparison")
    of_batch = supplier.get(f"{path}?batch={batch_id}")
    assert of_batch.status_code == 202
    assert f"?batch={batch_id}&comparison=" in of_batch.headers["Location"]


def _work_and_be_killed(*arguments: Any, **more: Any) -> None:
    chunks.work_on_chunk(*arguments, **more)
    raise KeyboardInterrupt
