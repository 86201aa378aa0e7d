"""Each form says how many things it touches, and does what it says."""

from migration_service.services.access.api_keys import find_prefix
from support.batch_client import BatchClient
from support.console_client import ConsoleClient
from support.messages import Message, noted_messages
from support.wave_client import WaveClient


def test_the_forms_of_a_batch(administrator: ConsoleClient, batches: BatchClient) -> None:
    batch_id = batches.start(batches.supplier.accounts(1), name="week 12")
    back = f"/batches/{batch_id}/"
    for action, sentence, state in (
        ("pause", "1 remaining line will wait until the batch is resumed.", "PAUSED"),
        ("resume", "1 remaining line will be processed.", "RUNNING"),
        (
            "cancel",
            "1 line will never be processed. Finished lines are kept. This is permanent.",
            "CANCELLED",
        ),
    ):
        shown = administrator.form(f"{back}{action}/")
        assert (shown.sentence, shown.back, shown.is_dangerous) == (sentence, back, action == "cancel")
        assert shown.title.endswith(": week 12")
        location, _said = administrator.act(f"{back}{action}/")
        assert (location, batches.get(batch_id)["state"]) == (back, state)


def test_the_forms_of_a_supplier(administrator: ConsoleClient, batches: BatchClient) -> None:
    code = batches.supplier.code
    batches.start(batches.supplier.accounts(1))
    back = f"/suppliers/{code}/"
    status = administrator.form(f"{back}status/")
    assert status.sentence == "It is Ongoing now, and has 1 batch that has not ended."
    assert [*status.facts] == ["Ongoing", "Paused", "Complete"]
    done = administrator.act(f"{back}status/", {"status": "Paused"})
    assert done == (back, f"Supplier {code} is Paused.")
    assert "It is Paused now" in administrator.see(f"{back}status/")
    for fields, before, after in (({"on": "y"}, "no e-mail", "an e-mail"), ({}, "an e-mail", "no e-mail")):
        shown = administrator.form(f"{back}emails/")
        assert shown.sentence == f"Customers get {before} when their account is created."
        done = administrator.act(f"{back}emails/", fields)
        assert done == (back, f"Customers of {code} get {after} from now on.")
    path = f"{back}time-zone/"
    assert administrator.form(path).sentence.startswith("It is UTC now.")
    assert administrator.act(path, {"time_zone": "Europe/Lisbon"})[0] == back
    assert "Europe/Lisbon" in administrator.see(back)
    refused = administrator.send(path, {"time_zone": "Europe/Nowhere"})
    assert refused.status_code == 400
    assert "is not a time zone" in refused.text


def test_the_forms_of_a_wave(administrator: ConsoleClient, waves: WaveClient) -> None:
    waves.stage(2)
    plan = waves.plan({"size": 1}, {"rest": True}, brake={"stop_after_errors": "5%"})
    first, second = (f"/waves/{plan['plan_id']}/{number}/" for number in (1, 2))

    def act(action: str, sentence: str, said: str, **fields: str) -> None:
        assert administrator.form(f"{first}{action}/").sentence == sentence
        assert administrator.act(f"{first}{action}/", fields) == (first, said)

    unknown = {"Created, and different from what was staged", "Open: neither created nor acknowledged"}
    facts = administrator.form(f"{first}reconcile/").facts
    assert {name for name, value in facts.items() if value == "not known yet"} == unknown
    with noted_messages() as messages:
        act("start", "The import of 1 account starts.", "The wave has started.")
    (begun,) = waves.supplier.get("/wave-plans/").get_json()
    assert messages == [("batches.run_chunk", (begun["waves"][0]["batch_id"], 1))]
    waits = "1 remaining account waits until the wave is resumed by hand, whatever its window."
    act("pause", waits, "The wave is paused.")
    goes_on = "The import of 1 remaining account continues: now, or in the next window."
    act("resume", goes_on, "The wave is resumed.")
    waves.run()
    act("reconcile", "1 account is compared with what was staged.", "The wave is being reconciled.")
    waves.run()
    facts = administrator.form(f"{first}approve/").facts
    assert {facts[name] for name in unknown} == {"0"}
    too_long = administrator.send(f"{first}approve/", {"reason": "r" * 1001})
    assert "longer than 1000" in too_long.text
    following = "Wave 2 starts within a few seconds, with 1 account."
    act("approve", following, "The wave is approved.", reason="It is right.")
    last = "It is the last wave: the plan is finished."
    assert administrator.form(f"{second}approve/").sentence == last
    stop = administrator.form(f"{second}stop/")
    kept = "1 remaining account is not imported. Created accounts are kept. This is permanent."
    assert (stop.sentence, stop.is_dangerous) == (kept, True)
    assert administrator.act(f"{second}stop/", {"reason": "Enough."})[0] == second
    assert waves.states(plan)[1] == "STOPPED"


def test_the_form_of_control_totals(administrator: ConsoleClient, batches: BatchClient) -> None:
    batch_id = batches.start(batches.supplier.accounts(2), "validate")
    back, path = f"/batches/{batch_id}/", f"/batches/{batch_id}/control-totals/"
    for given, done, shown in (
        ('{"accounts": 3}', "1 total differs.", "1 differs"),
        ('{"accounts": 3, "statements": 99}', "2 totals differ.", "2 differ"),
        ('{"accounts": 2}', "The file matches the control totals.", "as in the file"),
    ):
        location, said = administrator.act(path, {"totals": given})
        assert done in said
        assert location == back
        assert shown in administrator.see(back)
    assert administrator.form(path).facts["accounts"] == "2 given, 2 in the file"
    for bad, said in (('{"acounts": 2}', "did you mean accounts"), ("{", "not valid JSON"), ("", "required")):
        answer = administrator.send(path, {"totals": bad})
        assert said in answer.text
        assert answer.status_code == 400
    unreadable = f"/batches/{batches.start([b'{'], 'validate')}/"
    _, said = administrator.act(f"{unreadable}control-totals/", {"totals": '{"accounts": 1}'})
    assert "The part of the file that could be read matches the control totals." in said
    assert "as far as the file can be read" in administrator.see(unreadable)


def test_the_form_of_an_error_threshold(administrator: ConsoleClient, batches: BatchClient) -> None:
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
    administrator.act(path, {"stop_after_errors": "100"})
    assert (
        administrator.form(path).sentence
        == "Now it is paused when 100 lines failed. 0 of 0 lines have failed."
    )
    administrator.act(path, {"stop_after_errors": "off"})
    assert administrator.form(path).sentence == "The batch has no error threshold now."


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
        ("/setup/keys/new/", owned, "days", "3661", "between 1 and 3660"),
        (f"/setup/keys/{prefix}/roll/", {}, "days", "366", "between 0 and 365"),
        ("/setup/teams/new/", owned, "name", "n" * 129, "longer than 128"),
        ("/setup/vendors/new/", vendor, "url", "https://v.example/" + "n" * 1007, "longer than 1024"),
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
