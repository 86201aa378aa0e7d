"""Wave plans over HTTP, and whether a supplier is ready: what checks say, and what a person may accept."""

from typing import Any
from unittest.mock import patch
from uuid import uuid4

from sqlalchemy.orm import Session, sessionmaker

from migration_service.payment_vendors.calls import note_failure, read_failing
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.batches.intake.quotas import BatchQuotas
from migration_service.services.setup.vendors import create_payment_vendor
from migration_service.services.waves.orders import PlanOrder, WaveOrder
from migration_service.services.waves.plans import plan_waves
from support.imported_account import at_once
from support.wave_client import WaveClient

REST = {"rest": True}


def test_plans_with_one_key_at_once_are_one_plan(waves: WaveClient) -> None:
    waves.stage(1)
    headers = {"Idempotency-Key": str(uuid4())}
    body = {"import_supplier": waves.supplier.code, "operations_team_name": waves.supplier.team}
    answers = at_once(
        lambda: waves.supplier.post("/wave-plans/", body | {"waves": [REST]}, headers=headers), times=6
    )
    assert {answer.status_code for answer in answers} == {201}, [answer.text for answer in answers]
    assert len({answer.data for answer in answers}) == 1
    (location,) = {answer.headers["Location"] for answer in answers}
    assert location.endswith(f"/v1/data-import/wave-plans/{(answers[0].json or {})['plan_id']}/")


def test_a_plan_has_to_come_again_while_another_one_is_being_made(waves: WaveClient) -> None:
    waves.stage(1)
    order = PlanOrder(operations_team_name=waves.supplier.team, waves=(WaveOrder(),), continue_if_clean=False)
    with waves.supplier.Session() as session:
        plan_waves(session, waves.supplier.known(), order)
        answer = waves.post_plan(REST)
        assert (answer.status_code, answer.json["code"]) == (429, "too_many_uploads")
        assert int(answer.headers["Retry-After"]) > 0
    assert waves.post_plan(REST).status_code == 201


def test_the_waves_of_a_plan_are_within_the_quota_of_open_batches(waves: WaveClient) -> None:
    waves.stage(3)
    with patch("migration_service.blueprints.batch_upload.BatchQuotas", lambda *_: BatchQuotas(2, 10**9)):
        answer = waves.post_plan({"size": 1}, {"size": 1}, REST)
        assert (answer.status_code, answer.json["code"]) == (429, "too_many_open_batches")
        assert waves.supplier.get("/wave-plans/").json == []
        assert waves.post_plan({"size": 1}, REST).status_code == 201


def test_a_vendor_whose_last_call_failed_is_noticed_until_that_is_accepted(
    waves: WaveClient, sessions: sessionmaker[Session]
) -> None:
    path = f"/import-suppliers/{waves.supplier.code}/ready/"

    def ask() -> dict[str, Any]:
        checks: Any = waves.supplier.get(path).json
        return next(it for it in checks["checks"] if it["check"] == "vendors_answer")

    assert ask()["result"] == "PASSED"
    name, owner = f"cards-{waves.supplier.code}", waves.supplier.organisation
    with sessions.begin() as session:
        url = "https://cards.example.com"
        create_payment_vendor(session, name, kind=VendorKind.HTTP, url=url, organisation_name=owner)
    redis = waves.batches.resources.redis
    with redis.pipeline() as pipeline:
        note_failure(pipeline, name, "refused", is_open=False)
        note_failure(pipeline, name, "not called", is_open=True)
        pipeline.execute()
    failing = read_failing(redis, name)
    assert failing
    assert (failing.reason, failing.is_open) == ("refused", True)
    assert (ask()["result"], bool(ask()["remedy"])) == ("WARNING", True)
    body = {"check": "vendors_answer", "reason": "Known"}
    answers = [waves.supplier.post(f"{path}acceptances/", body) for _ in range(2)]
    assert [it.status_code for it in answers] == [201, 400]
    assert ask()["accepted_because"] == "Known"
