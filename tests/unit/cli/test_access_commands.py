"""`api-keys`, `operators` and `audit`, with `--json` and for people."""

import secrets

from sqlalchemy.orm import Session, sessionmaker

from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.audit.entries import AuditAction, record
from support.commands import Run, lines_of


def test_an_exported_audit_has_no_control_characters_for_a_terminal(
    run: Run, sessions: sessionmaker[Session]
) -> None:
    request_id, subject = secrets.token_hex(8), "a\x1b[2Jb\x9bc\u202ed"
    origin = Origin(kind=ActorKind.SYSTEM_USER, actor="anna", request_id=request_id)
    with acting_as(origin), sessions.begin() as session:
        record(session, AuditAction.TEAM_CREATED, "operations_team", subject, details={"it": subject})
    exported = run("audit", "export", "--request-id", request_id)
    (entry,) = lines_of(exported)
    assert (entry["subject"], entry["details"]) == (subject, {"it": subject})
    assert not set(exported.stdout) & {"\x1b", "\x9b", "\u202e"}
