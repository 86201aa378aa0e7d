"""Certificates: signed statements of what was migrated, which anybody can verify."""

from typing import Any

from flask import Response, jsonify, url_for
from marshmallow import validates_schema
from marshmallow.exceptions import ValidationError

from migration_payloads.schemas import fields
from migration_payloads.schemas.base import AnswerSchema, CommandFields
from migration_payloads.schemas.coded import example_of
from migration_payloads.schemas.messages import Message
from migration_service import errors
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import json_body, query_arguments
from migration_service.blueprints.requests.description_headers import refer
from migration_service.blueprints.requests.idempotency import KEY_ERRORS, answer_with_effect, idempotent
from migration_service.blueprints.requests.interface import caller, make_blueprint, supplier_in_body
from migration_service.blueprints.requests.paging import answer_list
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.requests.streaming import stream
from migration_service.schemas import answers
from migration_service.schemas.deciding import decided_by
from migration_service.schemas.paging import list_arguments
from migration_service.schemas.undo import UndoneWaveSchema
from migration_service.services.access.api_keys import get_api_key_name
from migration_service.services.certificates import reading
from migration_service.services.certificates.making import start_certificate
from migration_service.services.reconciliation.comparisons import get_batch_to_reconcile
from migration_service.services.undo.orders import batch_in_body
from migration_service.tasks import jobs

_BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_PLAN_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b12"
_CERTIFICATE_ID = "019aa5e0-9a31-7f00-8c15-6f2d1b7e4a91"
_MOMENT = "2026-03-02T08:00:00Z"


class CertificateBodySchema(CommandFields):
    """The body for a certificate: of a supplier's book, or of the accounts of a batch or a wave."""

    import_supplier = fields.NormalIdentifier("Code of the import supplier.", "DEMO_SUPPLIER", required=True)
    batch = fields.Scope("Only the accounts on the lines of this batch.", _BATCH_ID)
    wave = fields.Object(
        UndoneWaveSchema, "Only the accounts of this wave.", {"plan_id": _PLAN_ID, "number": 1}
    )
    by = decided_by()

    @validates_schema(skip_on_field_errors=True)
    def check_target(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse a batch and a wave together."""
        if "batch" in data and "wave" in data:
            raise ValidationError(Message("Expected either a batch or a wave.", "invalid"), "wave")


class CertificateAnswerSchema(AnswerSchema):
    """A certificate, and how far it is."""

    certificate_id = answers.UUID("Its id.", _CERTIFICATE_ID)
    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    batch_id = answers.UUID("The batch, or null for a whole book.", _BATCH_ID, allow_none=True)
    requested_by = answers.String("Who asked for it.", "Grace")
    created_at = answers.Moment("When it was asked for, in UTC.", _MOMENT)
    finished_at = answers.Moment("When it was signed, in UTC, or null.", _MOMENT, allow_none=True)
    accounts = answers.Integer("The number of accounts in it, so far.", 100_000)
    clean = answers.Boolean("Whether its receipt is clean. Null until it has ended.", True, allow_none=True)
    public_key = answers.String(
        "The public key with which it can be verified, in hexadecimal. Null until it has ended.",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        allow_none=True,
    )


blueprint = make_blueprint("certificates", "certificates", "Prove to others what was migrated.")

_ANSWER = CertificateAnswerSchema()
_STARTED = CertificateAnswerSchema.example(finished_at=None, accounts=0, clean=None, public_key=None)
_BODY = {name: it for name, it in example_of(CertificateBodySchema).items() if name != "batch"}
_LINES = {"type": "string", "description": "The lines of the certificate, exactly as they are signed."}


@blueprint.post("/", endpoint="start_certificate")
@idempotent()
@blueprint.response(202, CertificateAnswerSchema, example=_STARTED)
@answers_errors(
    errors.ImportSupplierNotFoundInBodyError,
    errors.BatchNotFoundError,
    errors.BatchStateError,
    errors.WavePlanNotFoundError,
    errors.WaveNotFoundError,
    errors.CertificatesNotSetUpError,
    errors.CertificateStateError,
    *KEY_ERRORS,
)
@json_body(CertificateBodySchema(), _BODY)
def start(body: dict[str, Any]) -> Response:
    """Start a certificate

    Workers hash what was sent and created of each account, and sign the result with the verdict, sums,
    files, error codes, acknowledgements, approvals, owners and the head of the audit. It relies on the kept
    comparison: reconcile first. Whoever asks for the same while it is made gets the same one.
    """
    shared = resources()
    with shared.Session.begin() as session:
        supplier = supplier_in_body(session, body)
        batch_id = get_batch_to_reconcile(session, batch_in_body(session, body, supplier), supplier)
        by = body.get("by") or get_api_key_name(session, caller().api_key_id)
        key = shared.settings.certificate_key
        certificate = start_certificate(session, supplier, batch_id, key=key, by=by)
        report = _ANSWER.dump(reading.describe_certificate(session, certificate))
        location = url_for("certificates.get_certificate", certificate_id=certificate.id)
        answer = answer_with_effect(session, report, 202, location)
    jobs.dispatch(shared.celery, shared.Session, jobs.CERTIFICATES)
    return answer


@blueprint.get("/", endpoint="list_certificates")
@query_arguments(list_arguments("certificates"))
@blueprint.response(200, CertificateAnswerSchema(many=True), headers=refer("Link"))
@answers_errors()
def list_all(arguments: dict[str, Any]) -> Response:
    """List the organisation's certificates, newest first

    The response is one page. A Link header (rel="next") leads to the next one.
    """
    return answer_list(arguments, reading.list_certificates, "certificate_id", _ANSWER)


@blueprint.get("/<certificate_id>/", endpoint="get_certificate")
@blueprint.response(200, CertificateAnswerSchema)
@answers_errors(errors.CertificateNotFoundError)
def get_one(certificate_id: str) -> Response:
    """Get how far a certificate is

    Once it has ended, it has the public key with which it can be verified.
    """
    with resources().Session.begin() as session:
        found = reading.get_certificate(session, certificate_id, organisation_id=caller().organisation_id)
        return jsonify(_ANSWER.dump(reading.describe_certificate(session, found)))


@blueprint.get("/<certificate_id>/file/", endpoint="download_certificate")
@blueprint.response(200, _LINES, content_type="application/x-ndjson")
@answers_errors(errors.CertificateNotFoundError, errors.CertificateStateError)
def get_file(certificate_id: str) -> Response:
    """Get a certificate as a file, streamed

    NDJSON, which `migration-client certificate verify` verifies without the service. It has no account
    number, and nothing of a person.
    """
    with resources().Session.begin() as session:
        found = reading.get_certificate(session, certificate_id, organisation_id=caller().organisation_id)
        reading.require_finished(found)
    pieces = reading.stream_certificate(resources().Session, found)
    return stream(pieces, "application/x-ndjson; charset=utf-8")


@blueprint.get("/<certificate_id>/accounts/<number:external_account_number>/", endpoint="prove_account")
@blueprint.response(200, _LINES, content_type="application/x-ndjson")
@answers_errors(
    errors.CertificateNotFoundError,
    errors.CertificateStateError,
    errors.AccountNotFoundError,
    errors.AccountErasedError,
)
def get_account(certificate_id: str, external_account_number: str) -> Response:
    """Get the proof that a certificate has an account

    NDJSON, which is verified like the certificate. It has both numbers of the account and the salted hashes
    of what was sent and created, and tells nothing of any other account. It ends with an erasure.
    """
    with resources().Session.begin() as session:
        found = reading.get_certificate(session, certificate_id, organisation_id=caller().organisation_id)
        proof = reading.prove_account(session, found, external_account_number)
    return Response(proof, mimetype="application/x-ndjson")
