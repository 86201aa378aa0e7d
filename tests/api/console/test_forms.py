"""Each form says what it will do and how many things it touches, and afterwards what it has done."""

import re
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import ApiKey, ImportSupplier, OperationsTeam, Operator, PaymentVendor
from migration_service.services.access.api_keys import find_prefix
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, ShownForm
from support.messages import Message, noted_messages
from support.wave_client import WaveClient


def test_the_forms_of_a_batch(administrator: ConsoleClient, batches: BatchClient) -> None:
    batch_id = batches.start(batches.supplier.accounts(1))
    back, short = f"/batches/{batch_id}/", batch_id[-12:]
    will_wait = "1 remaining line will wait until the batch is resumed."
    goes_on = "1 remaining line will be processed."
    never = "1 line will never be processed. Finished lines are kept. This is permanent."
    for action, shown, done in (
        ("pause", ShownForm(f"Pause the batch: {short}", will_wait, "Pause", back), "The batch is paused."),
        ("resume", ShownForm(f"Resume the batch: {short}", goes_on, "Resume", back), "The batch continues."),
        (
            "cancel",
            ShownForm(
                f"Cancel the batch: {short}", never, "Cancel the batch permanently", back, is_dangerous=True
            ),
            "The batch is cancelled.",
        ),
    ):
        path = f"{back}{action}/"
        assert administrator.form(path) == shown
        assert administrator.act(path) == (back, done)


def test_a_batch_is_called_by_its_name_or_else_by_its_file(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    accounts = batches.supplier.accounts(2)
    for account, given, name in (
        (accounts[0], {"name": "week 12", "file_name": "12.ndjson"}, "week 12"),
        (accounts[1], {"file_name": "13.ndjson"}, "13.ndjson"),
    ):
        batch_id = batches.run([account], **given)["batch_id"]
        assert administrator.form(f"/batches/{batch_id}/pause/").title == f"Pause the batch: {name}"
        assert administrator.form(f"/batches/{batch_id}/undo/").title == f"Undo the imports of batch {name}"


def test_the_forms_of_a_supplier(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    first, second, third = batches.supplier.accounts(3)
    for account in (first, second):
        batches.run([account])
    batches.start([third])
    code = batches.supplier.code
    back, statuses = (
        f"/suppliers/{code}/",
        {
            "Ongoing": "accepts new accounts; batches that wait continue",
            "Paused": "requests are refused; batches wait, and continue later",
            "Complete": "requests are refused; batches stop",
        },
    )
    ongoing = "It is Ongoing now, and has 1 batch that has not ended."
    shown = ShownForm(f"Status of {code}", ongoing, "Set the status", back, facts=statuses)
    assert administrator.form(f"{back}status/") == shown
    assert administrator.act(f"{back}status/", {"status": "Paused"}) == (
        back,
        f"Supplier {code} is Paused.",
    )
    paused = administrator.see(f"{back}status/?status=Complete")
    assert "It is Paused now" in paused
    assert '<option selected value="Complete">' in paused

    title = f"Customer e-mails of {code}"
    no, yes = (f"Customers get {it} when their account is created." for it in ("no e-mail", "an e-mail"))
    assert administrator.form(f"{back}emails/") == ShownForm(title, no, "Set", back)
    on = administrator.act(f"{back}emails/", {"on": "y"})
    assert on == (back, f"Customers of {code} get an e-mail from now on.")
    assert administrator.form(f"{back}emails/") == ShownForm(title, yes, "Set", back)
    off = administrator.act(f"{back}emails/")
    assert off == (back, f"Customers of {code} get no e-mail from now on.")

    path, zone = f"{back}time-zone/", {"time_zone": "Europe/Lisbon"}
    shown = administrator.form(path)
    assert (shown.title, shown.sentence[:14]) == (f"Time zone of {code}", "It is UTC now.")
    assert administrator.act(path, zone) == (back, f"The time zone of {code} is Europe/Lisbon.")
    assert "Europe/Lisbon" in administrator.see(back)
    refused = administrator.send(path, {"time_zone": "Europe/Nowhere"})
    assert refused.status_code == 400
    assert "is not a time zone" in refused.text


def test_the_form_of_a_new_supplier(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    sentence = "Creates one import supplier, which is Ongoing from the start."
    assert administrator.form("/suppliers/new/") == ShownForm("New import supplier", sentence, "Create", "/")
    code = f"N_{uuid4().hex[:8]}"
    fields = {
        "organisation": batches.supplier.organisation,
        "code": code,
        "profile": "strict",
        "document_root": "s3://bucket/folder",
        "time_zone": "Europe/Lisbon",
    }
    done = administrator.act("/suppliers/new/", fields)
    assert done == (f"/suppliers/{code}/", f"Import supplier {code} was created.")
    with sessions() as session:
        made = session.scalars(select(ImportSupplier).where(ImportSupplier.code == code)).one()
    assert (made.profile, made.document_root, made.status) == ("strict", "s3://bucket/folder", "Ongoing")
    assert made.time_zone == "Europe/Lisbon"


def test_the_forms_of_a_key_and_what_the_list_says_of_them(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    back, organisation = "/setup/keys/", batches.supplier.organisation
    issues = "Issues one key. It is shown only once, because only its hash is stored."
    assert administrator.form(f"{back}new/") == ShownForm("New API key", issues, "Issue", back)
    limited = {"organisation": organisation, "name": "soon", "days": "30", "suppliers": batches.supplier.code}
    later = {"organisation": organisation, "name": "later", "days": "31"}
    for fields in (limited, later, {"organisation": organisation, "name": "free"}):
        page = administrator.send(f"{back}new/", fields).text
        assert "The key was issued. It is not shown again." in page
        assert f'href="/console{back}">Done</a>' in page
    with sessions() as session:
        soon, free = session.scalars(
            select(ApiKey).where(ApiKey.name.in_(["soon", "free"])).order_by(ApiKey.name.desc())
        )
        supplier_id = session.scalar(
            select(ImportSupplier.id).where(ImportSupplier.code == batches.supplier.code)
        )
    assert soon.expires_at and abs(soon.expires_at - datetime.now(UTC) - timedelta(days=30)) < timedelta(
        hours=1
    )
    assert (soon.scopes, soon.import_supplier_ids, soon.allowed_networks) == (None, [supplier_id], None)
    assert (free.expires_at, free.scopes, free.import_supplier_ids, free.allowed_networks) == (None,) * 4

    roll = f"{back}{free.prefix}/roll/"
    successor = "Creates one successor with the same name and limits. The old key expires after the overlap."
    shown = ShownForm(f"Roll API key {free.prefix}", successor, "Roll", back, facts={"Last used": "never"})
    assert administrator.form(roll) == shown
    assert 'value="7"' in administrator.see(roll)
    page = administrator.send(roll, {"days": "0"}).text
    assert "The successor was issued. It is not shown again." in page

    assert administrator.lead(back) == "4 API keys are valid. 1 ends within 30 days. 3 were never used."
    revoke = f"{back}{soon.prefix}/revoke/"
    ends = "The key and 0 sessions end immediately. Its batches are paused. This is permanent."
    assert administrator.form(revoke) == ShownForm(
        f"Revoke API key {soon.prefix}", ends, "Revoke permanently", back, is_dangerous=True
    )
    assert administrator.act(revoke) == (back, f"API key {soon.prefix} was revoked.")
    assert administrator.lead(back) == "3 API keys are valid. 2 were never used."


def test_the_forms_of_operators(administrator: ConsoleClient, sessions: sessionmaker[Session]) -> None:
    back = "/setup/operators/"
    makes = "Creates one operator, who can log in once a password is set."
    assert administrator.form(f"{back}new/") == ShownForm("New operator", makes, "Save", back)
    name = f"o-{uuid4().hex[:8]}"
    done = administrator.act(f"{back}new/", {"name": name, "role": "read"})
    assert done == (f"{back}{name}/password/", f"Operator {name} was created. Set a password next.")
    with sessions() as session:
        made = session.scalars(select(Operator).where(Operator.name == name)).one()
    assert made.role == "read"

    ends = "0 sessions of the operator end immediately."
    path = f"{back}{name}/password/"
    assert administrator.form(path) == ShownForm(f"Password of {name}", ends, "Save", back)
    password = "p" * 12
    done = administrator.act(path, {"password": password, "again": password})
    assert done == (back, f"The password of operator {name} is set.")
    client = ConsoleClient(administrator.app)
    assert client.log_in(name, password).status_code == 303
    assert administrator.form(path).sentence == "1 session of the operator ends immediately."

    at_once = "The role applies immediately, even if the operator is logged in."
    path = f"{back}{name}/role/"
    assert administrator.form(path) == ShownForm(f"Role of {name}", at_once, "Save", back)
    assert administrator.act(path, {"role": "operate"}) == (back, f"Operator {name} has the role operate.")

    path, ends = f"{back}{name}/disable/", "1 session of the operator ends immediately."
    assert administrator.form(path) == ShownForm(
        f"Disable operator {name}", ends, "Disable", back, is_dangerous=True
    )
    assert administrator.act(path) == (back, f"Operator {name} is disabled.")


def test_an_administrator_who_disables_themselves_is_told(
    administrator: ConsoleClient, sessions: sessionmaker[Session]
) -> None:
    page = administrator.see("/")
    (name,) = re.findall('<span class="menu-name">(.*?)</span>', page)
    assert administrator.form(f"/setup/operators/{name}/disable/").sentence == (
        "This is you: you will be logged out, and cannot log in again. "
        "1 session of the operator ends immediately."
    )


def test_the_forms_of_an_undo(administrator: ConsoleClient, batches: BatchClient) -> None:
    (first,) = batches.supplier.accounts(1)
    batches.run([first])
    code, number = batches.supplier.code, first["external_account_number"]
    account = f"/suppliers/{code}/accounts/{number}/"
    removed = "1 account is removed with all its data, and its import is pending again."
    stays = "Accounts that are blocked, and kept"
    assert administrator.form(f"{account}undo/") == ShownForm(
        f"Undo the import of account {number}",
        removed,
        "Undo 1 import",
        account,
        is_dangerous=True,
        facts={stays: "0"},
    )
    undo, said = administrator.act(f"{account}undo/", {"reason": "The mapping was wrong."})
    assert said == "The undo has started."
    left = "1 remaining account is kept. This is permanent."
    assert administrator.form(f"{undo}cancel/") == ShownForm(
        f"Cancel the undo for {code}", left, "Cancel the undo permanently", undo, is_dangerous=True
    )
    assert administrator.act(f"{undo}cancel/") == (undo, "The undo is cancelled.")

    given = {"import_supplier": code, "external_account_number": number}
    batches.run([{**given, "notes": [{"body": "One."}]}], kind="notes")
    blocked = administrator.form(f"{account}undo/")
    assert blocked.sentence.startswith("0 accounts are removed")
    assert blocked.facts == {stays: "1", f"data_added_later: {number}": "1"}
    assert blocked.button == "Undo 0 imports"


def test_the_forms_of_a_wave(administrator: ConsoleClient, batches: BatchClient) -> None:
    waves, code = WaveClient(batches), batches.supplier.code
    with waves.clock():
        waves.stage(2)
        plan = waves.plan({"size": 1}, {"rest": True}, brake={"stop_after_errors": "5%"})
        first, second = (f"/waves/{plan['plan_id']}/{number}/" for number in (1, 2))

        def acts(action: str, shown: ShownForm, done: str, **fields: str) -> None:
            assert administrator.form(f"{first}{action}/") == shown
            assert administrator.act(f"{first}{action}/", fields) == (first, done)

        begins, brake = "The import of 1 account starts.", {"Paused after": "5% errors"}
        unknown = {
            "Reconciled": "\N{EN DASH}",
            "Failed": "0",
            "Created, and different from what was staged": "not known yet",
            "Open: neither created nor acknowledged": "not known yet",
        }
        assert administrator.form(f"{first}reconcile/").facts == unknown
        acts(
            "start",
            ShownForm("Start wave 1", begins, "Import 1 account", first, facts=brake),
            "The wave has started.",
        )
        waits = "1 remaining account waits until the wave is resumed by hand, whatever its window."
        acts("pause", ShownForm("Pause wave 1", waits, "Pause", first), "The wave is paused.")
        goes_on = "The import of 1 remaining account continues: now, or in the next window."
        shown = ShownForm("Resume wave 1", goes_on, "Resume", first, facts={"Failed so far": "0"})
        acts("resume", shown, "The wave is resumed.")
        waves.run()

        def found() -> dict[str, str]:
            reconciled = administrator.form(f"{first}reconcile/").facts["Reconciled"]
            assert reconciled != "\N{EN DASH}"
            return dict.fromkeys(unknown, "0") | {"Reconciled": reconciled}

        compared = "1 account is compared with what was staged."
        shown = ShownForm("Reconcile wave 1 again", compared, "Reconcile again", first, facts=found())
        acts("reconcile", shown, "The wave is being reconciled.")
        waves.run()
        reason = {"reason": "r" * 1001}
        assert "longer than 1000" in administrator.send(f"{first}approve/", reason).text
        following = "Wave 2 starts within a few seconds, with 1 account."
        shown = ShownForm("Approve wave 1", following, "Approve", first, facts=found())
        acts("approve", shown, "The wave is approved.", reason="It is right.")
        last = administrator.form(f"{second}approve/")
        assert (last.title, last.sentence) == ("Approve wave 2", "It is the last wave: the plan is finished.")

        left = "{} not imported. Created accounts are kept. This is permanent."
        assert administrator.form(f"{second}stop/") == ShownForm(
            f"Stop wave 2 of {code}",
            left.format("1 remaining account is"),
            "Stop 1 wave permanently",
            second,
            is_dangerous=True,
            facts={"Waves that are stopped": "2"},
        )
        said = administrator.act(f"{second}stop/", {"reason": "Enough."})
        assert said == (second, "The wave is stopped, and every later one.")
        over = administrator.form(f"{second}stop/")
        assert over.sentence == left.format("0 remaining accounts are")
        assert (over.button, over.facts) == ("Stop 0 waves permanently", {"Waves that are stopped": ""})


def test_the_forms_of_an_account(administrator: ConsoleClient, batches: BatchClient) -> None:
    (account,) = batches.supplier.accounts(1)
    batches.run([account], "stage")
    number = account["external_account_number"]
    page = f"/suppliers/{batches.supplier.code}/accounts/{number}/"
    skips = "One account will be neither staged nor created, until it is put back."
    shown = ShownForm(f"Skip account {number}", skips, "Skip the account", page)
    assert administrator.form(f"{page}skip/") == shown
    assert administrator.act(f"{page}skip/") == (page, f"Account {number} is skipped.")
    again = "One account can be staged and created again."
    shown = ShownForm(f"Put back account {number}", again, "Put the account back", page)
    assert administrator.form(f"{page}unskip/") == shown
    assert administrator.act(f"{page}unskip/") == (page, f"Account {number} is put back.")


def test_the_forms_of_what_is_set_up(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    own = batches.supplier.organisation
    vendor = {"kind": "http", "url": " https://gateway.example/v2 ", "organisation": own}
    for path, back, title, sentence, kind, fields in (
        (
            "/setup/organisations/new/",
            "/setup/organisations/",
            "New organisation",
            "Creates one organisation. It sees nothing of another one.",
            "Organisation",
            {},
        ),
        (
            "/setup/teams/new/",
            "/setup/teams/",
            "New operations team",
            "Creates one team, to which created accounts can be linked.",
            "Operations team",
            {"organisation": own},
        ),
        (
            "/setup/vendors/new/",
            "/setup/vendors/",
            "New payment vendor",
            "Creates one payment vendor, which confirms payment instructions.",
            "Payment vendor",
            vendor,
        ),
    ):
        assert administrator.form(path) == ShownForm(title, sentence, "Create", back)
        name = f"new {uuid4().hex[:8]}"
        assert administrator.act(path, {**fields, "name": name}) == (back, f"{kind} {name} was created.")
    with sessions() as session:
        made = session.scalars(select(PaymentVendor).where(PaymentVendor.name == name)).one()
        teams = session.scalars(select(OperationsTeam).where(OperationsTeam.name.like("new %"))).all()
    assert (made.url, made.secret_env) == ("https://gateway.example/v2", None)
    assert made.organisation_id is not None
    assert [team.organisation_id for team in teams] == [made.organisation_id]

    rate, back = f"/setup/vendors/{made.id}/rate/", "/setup/vendors/"
    now = (
        "Batches call it at most {} times per second now, all workers together. "
        "Single requests are not counted."
    )
    shown = ShownForm(f"Calls of payment vendor {name}", now.format("10"), "Set the rate", back)
    assert administrator.form(rate) == shown
    said = f"Batches call {name} at most 2.5 times per second."
    assert administrator.act(rate, {"calls_per_second": "2.5"}) == (back, said)
    assert administrator.form(rate).sentence == now.format("2.5")
    assert administrator.get("/setup/vendors/0/rate/").status_code == 404


def test_the_form_of_control_totals(administrator: ConsoleClient, batches: BatchClient) -> None:
    batch_id = batches.start(batches.supplier.accounts(2), "validate")
    back, path = f"/batches/{batch_id}/", f"/batches/{batch_id}/control-totals/"
    assert "not given" in administrator.see(back)
    shown = administrator.see(back)
    assert "No line has been processed yet." in shown
    assert "No line has an error." not in shown
    for given, done, shown in (
        ('{"accounts": 3}', "1 total differs.", "1 differs"),
        ('{"accounts": 3, "statements": 99}', "2 totals differ.", "2 differ"),
        ('{"accounts": 2}', "The file matches the control totals.", "as in the file"),
    ):
        location, said = administrator.act(path, {"totals": given})
        assert done in said
        assert location == back
        assert shown in administrator.see(back)
    sentence = "They are compared with all lines of the file, including refused ones."
    form = administrator.form(path)
    assert (form.title, form.sentence, form.button) == ("Control totals", sentence, "Compare with the file")
    assert form.facts["accounts"] == "2 given, 2 in the file"
    assert form.facts["balance of ENERGY_LEDGER"].startswith(("€", "-€"))
    assert "{&#34;accounts&#34;:2}" in administrator.see(path)
    for bad, said in (('{"acounts": 2}', "did you mean accounts"), ("{", "not valid JSON"), ("", "required")):
        answer = administrator.send(path, {"totals": bad})
        assert said in answer.text
        assert answer.status_code == 400
    batches.work()
    assert "No line has an error." in administrator.see(back)
    unreadable = f"/batches/{batches.start([b'{'], 'validate')}/"
    _, said = administrator.act(f"{unreadable}control-totals/", {"totals": '{"accounts": 1}'})
    assert "The part of the file that could be read matches the control totals." in said
    assert "as far as the file can be read" in administrator.see(unreadable)


def test_the_form_of_a_brake(administrator: ConsoleClient, batches: BatchClient) -> None:
    batch_id = batches.start(batches.supplier.accounts(1))
    back, path = f"/batches/{batch_id}/", f"/batches/{batch_id}/brake/"
    given = {
        "stop_after_errors": " 5% ",
        "stop_min_lines": "300",
        "stop_window_lines": "400",
        "stop_ignore_codes": "required invalid_phone_number",
        "stop_count_warnings": "ledger_missing",
    }
    assert administrator.act(path, given) == (back, "The error threshold of the batch is set.")
    brake = batches.get(batch_id)["brake"]
    told = {name: brake[name] for name in given}
    assert told == {
        "stop_after_errors": "5%",
        "stop_min_lines": 300,
        "stop_window_lines": 400,
        "stop_ignore_codes": ["required", "invalid_phone_number"],
        "stop_count_warnings": ["ledger_missing"],
    }
    now = "Now it is paused after 5%. 0 of the last 0 lines have failed."
    assert administrator.form(path) == ShownForm(
        "Error threshold of the batch", now, "Set the error threshold", back
    )
    administrator.act(path, {"stop_after_errors": "100"})
    assert administrator.form(path).sentence == "Now it is paused after 100. 0 of 0 lines have failed."
    administrator.act(path, {"stop_after_errors": "off"})
    assert administrator.form(path).sentence == "The batch has no error threshold now."


def test_the_form_of_the_limit(administrator: ConsoleClient) -> None:
    now = "The limit is {}. 0 accounts are being processed, and are not affected."
    for before, given, done in (
        ("250", "", "The number of accounts processed at the same time is no longer limited."),
        ("none", "7", "At most 7 accounts are processed at the same time."),
    ):
        shown = ShownForm("Concurrency limit", now.format(before), "Set the limit", "/work/")
        assert administrator.form("/limit/") == shown
        assert administrator.act("/limit/", {"limit": given}) == ("/work/", done)


def test_fields_have_bounds(administrator: ConsoleClient, batches: BatchClient) -> None:
    (account,) = batches.supplier.accounts(1)
    batches.run([account])
    supplier, prefix = batches.supplier, find_prefix(batches.supplier.api_key)
    undo = f"/suppliers/{supplier.code}/accounts/{account['external_account_number']}/undo/"
    owned = {"organisation": supplier.organisation}
    vendor = {**owned, "name": "V", "kind": "http", "url": "https://gateway.example/v2"}
    csrf = administrator.tokens("/limit/")["csrf_token"]
    for path, fields, name, bad, said in (
        ("/setup/keys/new/", owned, "name", "n" * 129, "longer than 128"),
        ("/setup/keys/new/", owned, "days", "0", "between 1 and 3660"),
        ("/setup/keys/new/", owned, "days", "3661", "between 1 and 3660"),
        (f"/setup/keys/{prefix}/roll/", {}, "days", "366", "between 0 and 365"),
        ("/setup/operators/new/", {"role": "read"}, "name", "n" * 129, "longer than 128"),
        ("/setup/organisations/new/", {}, "name", "n" * 129, "longer than 128"),
        ("/setup/teams/new/", owned, "name", "n" * 129, "longer than 128"),
        ("/setup/vendors/new/", vendor, "name", "n" * 129, "longer than 128"),
        ("/setup/vendors/new/", vendor, "url", "https://v.example/" + "n" * 1007, "longer than 1024"),
        ("/setup/vendors/new/", vendor, "secret_env", "N" * 256, "longer than 255"),
        ("/suppliers/new/", {**owned, "profile": "strict"}, "code", "C" * 65, "longer than 64"),
        (
            "/suppliers/new/",
            {**owned, "profile": "strict", "code": "C"},
            "document_root",
            "s3://b/" + "f" * 1018,
            "longer than 1024",
        ),
        (undo, {}, "reason", "r" * 501, "longer than 500"),
        ("/limit/", {}, "limit", "0", "between 1 and"),
    ):
        answer = administrator.post(path, {"csrf_token": csrf, **fields, name: bad})
        assert answer.status_code == 400, (path, name)
        assert said in answer.text, (path, name)


def test_workers_are_told_at_once_of_what_a_form_begins(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    good, faulty = batches.supplier.accounts(2)
    faulty["customers"] = [{"family_name": "Jansen", "landline": "not a number"}]
    batch_id = str(batches.run([good, faulty])["batch_id"])
    supplier, batch = f"/suppliers/{batches.supplier.code}/", f"/batches/{batch_id}/"
    status, retry = f"{supplier}status/", f"{batch}retry/?everything=1"
    chunk, team = ("batches.run_chunk", (batch_id, 1)), batches.supplier.team
    with noted_messages() as messages:

        def told(path: str, **fields: str) -> list[Message]:
            messages.clear()
            administrator.act(path, fields)
            return list(messages)

        assert told(retry) == [chunk]
        batches.work()
        assert told(status, status="Paused") == []
        assert told(retry) == []
        assert told(status, status="Ongoing") == [chunk]
        batches.work()
        told(status, status="Paused")
        told(retry)
        told(f"{batch}pause/")
        assert told(status, status="Ongoing") == []
        assert told(f"{batch}resume/") == [chunk]
        batches.work()
        assert [task for task, _args in told(f"{batch}repeat/stage/", team=team)] == [chunk[0]]
        undo = f"{supplier}accounts/{good['external_account_number']}/undo/"
        assert [task for task, _args in told(undo, reason="Again.")] == ["undos.revert_accounts"]


def test_a_form_with_a_token_of_no_page_is_refused(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    batch_id = batches.start(batches.supplier.accounts(1))
    for token in ("", "not a token"):
        answer = administrator.send(f"/batches/{batch_id}/pause/", {"form_token": token})
        assert answer.status_code == 400
        assert "The page has expired. Open it again." in answer.text
    assert batches.get(batch_id)["state"] == "RUNNING"
