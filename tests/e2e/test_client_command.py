"""`migration-client` and the running service: what it does with files, and each operation."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from drill.scene import SUPPLIER, TEAM, Scene
from migration_service_client.command import main
from support.batch_client import ndjson
from support.receivers import receiving

#: Runs the command. Its arguments may not be texts.
Run = Callable[..., Result]


@pytest.fixture
def run(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `migration-client` in an empty folder, with an input. It may fail, but not crash.

    It is to end with the status `expect`, or with any if that is None.
    """
    monkeypatch.chdir(tmp_path)
    environment = {
        "XDG_CONFIG_HOME": str(tmp_path),
        "MIGRATION_CLIENT_URL": scene.address.url,
        "MIGRATION_CLIENT_KEY": scene.address.api_key,
    }

    def run(*arguments: object, given: bytes | str | None = None, expect: int | None = 0) -> Result:
        result = CliRunner().invoke(main, [str(it) for it in arguments], env=environment, input=given)
        assert result.exit_code in (0, 1, 2) if expect is None else result.exit_code == expect, result.output
        return result

    return run


def test_the_doctor_shows_what_the_key_may_do_and_what_is_wrong_with_it(run: Run, scene: Scene) -> None:
    done = run("doctor", "--json")
    found = {it["part"]: it for it in map(json.loads, done.stdout.splitlines())}
    assert {it["verdict"] for it in found.values()} == {"ok"}
    assert found["key"]["seen"].startswith(scene.address.api_key[:14])
    assert (found["scopes"]["seen"], found["networks"]["seen"]) == ("all", "any; this machine is 127.0.0.1")
    Path("key").write_text("ami_0123456789_wrong")
    assert "-> Run: chmod 600 key\nwrong    key " in run("doctor", "--key-file", "key", expect=1).stdout


def test_what_stops_a_sending_leaves_its_lines_for_the_next_time(run: Run, scene: Scene) -> None:
    numbers = scene.stage(2, "MCT-")
    one, other = (
        scene.send("GET", f"accounts/{SUPPLIER}/{it}/").json()["staged"]["payload"] for it in numbers
    )
    Path("book.ndjson").write_bytes(ndjson([one, other | {"billing_address1": "Elsewhere"}]))
    arguments = ("send", "book.ndjson", "--mode", "import", "--team")
    assert "(operations_team_not_found)" in run(*arguments, "No such team", expect=2).stderr
    journal = Path("book.ndjson.journal")
    assert "line_number" not in journal.read_text()
    # In the meantime somebody else imports what one of them was before.
    scene.stage(2, "MCT-")
    assert scene.process(numbers[1], wait=True).status_code == 201
    for _ in range(2):
        run(*arguments, TEAM, expect=1)
        found = map(json.loads, run("results", "book.ndjson", "--json", expect=None).stdout.splitlines())
        assert [(it["status"], [one["code"] for one in it["warnings"]]) for it in found] == [
            ("IMPORTED", []),
            ("ALREADY_IMPORTED", ["payload_differs"]),
        ]
        # If its end is lost, the same run goes on, and says the same.
        head, *told = journal.read_text().splitlines()
        journal.write_text("".join(f"{it}\n" for it in (head, *told) if it is head or f'"{TEAM}"' in it))


def test_an_example_of_an_event_and_an_event_once_more(run: Run) -> None:
    Path("secret").write_text(secret := "whsec_" + "c2VjcmV0" * 4)
    with receiving() as receiver:
        to = ("trigger", "account.created", "--forward-to", receiver.url, "--secret-file", "secret")
        told = run(*to).stdout
        assert receiver.ids() == [told.split()[-1].rstrip(".")]
        [event] = receiver.verified(secret)
        assert event["data"]["service_account_number"].startswith("A-")
        receiver.answer(500)
        said = run(*to, expect=2).stderr
        assert said.endswith("did not receive account.created: it answered 500.\n")
    said = run("resend", "1", expect=2).stderr
    assert said == "Error: You have 0 webhooks. Name one with --webhook: -.\n"
