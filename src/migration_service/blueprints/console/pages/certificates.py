"""Certificates of a supplier, each as a page that can be printed, and as the file that anybody can verify."""

from functools import partial
from uuid import UUID

import msgspec
from flask import Blueprint, Response, render_template, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as AnyResponse

from migration_service.blueprints.console.access import current_operator, supplier_of, visible_row
from migration_service.blueprints.console.acting import Act, add_acts, dispatch_jobs
from migration_service.blueprints.console.languages import mark
from migration_service.blueprints.console.lists import list_at, show_list
from migration_service.blueprints.console.pages.downloads import send_file
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import CertificateNotFoundError
from migration_service.models import Certificate
from migration_service.services.certificates import reading
from migration_service.services.certificates.making import start_certificate
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.tasks.jobs import CERTIFICATES

blueprint = Blueprint("certificates", __name__)


_COLUMNS = "certificate_id created_at requested_by accounts finished_at clean public_key"


@list_at(blueprint, "/suppliers/<code>/certificates/")
def show_all(code: str) -> AnyResponse:
    """List the certificates of a supplier, newest first."""
    with resources().Session.begin() as session:
        supplier = supplier_of(session, code)
    owner = supplier.organisation_id
    return show_list(
        "certificates.html",
        partial(reading.list_certificates, organisation_id=owner, import_supplier=code),
        _COLUMNS,
        lambda _session, _found: {"supplier": supplier},
        key="certificate_id",
        read_key=UUID,
    )


@blueprint.get("/certificates/<uuid:certificate_id>/")
def show(certificate_id: UUID) -> str:
    """Show what a certificate says, as a page to print."""
    with resources().Session.begin() as session:
        certificate = _certificate_of(session, certificate_id)
        lines = [msgspec.json.decode(it) for it in reading.require_finished(certificate).splitlines()]
    parts = {it["part"]: it for it in lines}
    return render_template("certificate.html", parts=parts, head=lines[0], signature=lines[1])


@blueprint.get("/certificates/<uuid:certificate_id>/certificate.ndjson")
def download(certificate_id: UUID) -> Response:
    """Send the file, which anybody can verify."""
    with resources().Session.begin() as session:
        certificate = _certificate_of(session, certificate_id)
        reading.require_finished(certificate)
    pieces = reading.stream_certificate(resources().Session, certificate)
    return send_file(pieces, f"certificate-{certificate_id}.ndjson", "application/x-ndjson")


def _certificate_of(session: Session, certificate_id: UUID) -> Certificate:
    return visible_row(session, Certificate, certificate_id, CertificateNotFoundError)


add_acts(
    blueprint,
    "/suppliers/<code>/certificates/",
    [
        Act[KnownSupplier](
            name="start",
            title=mark("Certificate"),
            sentence=mark("Workers hash every created account and sign what the kept comparison found."),
            button=mark("Make a certificate"),
            done=mark("The certificate is being made."),
            do=lambda session, code: start_certificate(
                session,
                supplier_of(session, code),
                None,
                key=resources().settings.certificate_key,
                by=current_operator().name,
            ),
        )
    ],
    show=supplier_of,
    back=lambda code: url_for("certificates.show_all", code=code),
    afterwards=[dispatch_jobs(CERTIFICATES)],
)
