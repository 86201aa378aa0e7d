"""Certificates: signed statements of what was migrated, which anybody can verify."""

from typing import Any

from flask import Response, jsonify, url_for

from migration_payloads.schemas.coded import example_of
from migration_service import errors
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import json_body, query_arguments
from migration_service.blueprints.requests.description_headers import refer
from migration_service.blueprints.requests.idempotency import KEY_ERRORS, idempotent, keep_with_effect
from migration_service.blueprints.requests.interface import caller, make_blueprint
from migration_service.blueprints.requests.names import supplier_in_body
from migration_service.blueprints.requests.paging import answer_list
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.requests.streaming import stream
from migration_service.schemas import certificates
from migration_service.services.access.api_keys import get_api_key_name
from migration_service.services.certificates import reading
from migration_service.services.certificates.making import start_certificate
from migration_service.services.reconciliation.comparisons import get_batch_to_reconcile
from migration_service.services.undo.orders import batch_in_body
from migration_service.tasks import jobs

blueprint = make_blueprint("certificates", "certificates", "Prove to others what was migrated.")

_ANSWER = certificates.CertificateAnswerSchema()
_STARTED = certificates.CertificateAnswerSchema.example(
    finished_at=None, accounts=0, clean=None, public_key=None
)
_BODY = {name: it for name, it in example_of(certificates.CertificateBodySchema).items() if name != "batch"}
_LINES = {"type": "string", "description": "The lines of the certificate, exactly as they are signed."}


@blueprint.post("/", endpoint="start_certificate")
@idempotent(blueprint)
@blueprint.response(202, certificates.CertificateAnswerSchema, example=_STARTED)
@answers_errors(
    blueprint,
    errors.ImportSupplierNotFoundInBodyError,
    errors.BatchNotFoundError,
    errors.BatchStateError,
    errors.WavePlanNotFoundError,
    errors.WaveNotFoundError,
    errors.CertificatesNotSetUpError,
    errors.CertificateStateError,
    *KEY_ERRORS,
)
@json_body(blueprint, certificates.CertificateBodySchema(), _BODY)
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
        answer = jsonify(_ANSWER.dump(reading.describe_certificate(session, certificate)))
        answer.status_code = 202
        answer.headers["Location"] = url_for("certificates.get_certificate", certificate_id=certificate.id)
        keep_with_effect(session, answer)
    jobs.dispatch(shared.celery, shared.Session, jobs.CERTIFICATES)
    return answer


@blueprint.get("/", endpoint="list_certificates")
@query_arguments(blueprint, certificates.CertificateListArgumentsSchema())
@blueprint.response(
    200,
    certificates.CertificateAnswerSchema(many=True),
    example=[certificates.CertificateAnswerSchema.example()],
    headers=refer("Link"),
)
@answers_errors(blueprint)
def list_all(arguments: dict[str, Any]) -> Response:
    """List the organisation's certificates, newest first

    The response is one page. A Link header (rel="next") leads to the next one.
    """
    return answer_list(arguments, reading.list_certificates, "certificate_id", _ANSWER)


@blueprint.get("/<certificate_id>/", endpoint="get_certificate")
@blueprint.response(
    200,
    certificates.CertificateAnswerSchema,
    example=certificates.CertificateAnswerSchema.example(),
)
@answers_errors(blueprint, errors.CertificateNotFoundError)
def get_one(certificate_id: str) -> Response:
    """Get how far a certificate is

    Once it has ended, it has the public key with which it can be verified.
    """
    with resources().Session.begin() as session:
        found = reading.get_certificate(session, certificate_id, organisation_id=caller().organisation_id)
        return jsonify(_ANSWER.dump(reading.describe_certificate(session, found)))


@blueprint.get("/<certificate_id>/file/", endpoint="download_certificate")
@blueprint.response(200, _LINES, content_type="application/x-ndjson")
@answers_errors(blueprint, errors.CertificateNotFoundError, errors.CertificateStateError)
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
    blueprint,
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
