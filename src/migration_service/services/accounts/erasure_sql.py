"""The SQL statements of `services.accounts.erasure`."""

from functools import cache
from typing import Any, cast

from marshmallow import Schema
from marshmallow.fields import Nested
from sqlalchemy import ARRAY, BigInteger, Column, TextClause, bindparam, text

from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_service.db.base import Base, literals
from migration_service.errors import AccountMarkedToSkipError
from migration_service.models import Account
from migration_service.models.part import Part, path_of, payload_columns, table_of
from migration_service.services.accounts.removal import rows_of_accounts, statements_about_persons
from migration_service.states import ImportState, LineStatus

#: Lock the organisation until the transaction ends. False if another erasure has locked it. The first number
#: distinguishes these advisory locks from others.
HOLD_ORGANISATION = text("SELECT pg_try_advisory_xact_lock(7215, hashint8(:organisation_id))")

LOCK_PROCESS = text("""
    SELECT id, state, service_account_number, payload IS NOT NULL AS has_payload
    FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = :number
    FOR UPDATE
""")

FIND_MARK = text("""
    SELECT FROM skip_mark
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = :number
""")

#: Locked, so that nothing is added to the account in the meantime.
LOCK_ACCOUNT = text("SELECT id FROM account WHERE account_import_process_id = :process_id FOR UPDATE")

_OPEN = literals(status for status in LineStatus if status.is_open)

# The codes of errors are kept, because they are counted. Their texts may contain values that were sent.
_CODES_ONLY = """(
    SELECT jsonb_agg(jsonb_build_object('detail', 'Erased.', 'code', item ->> 'code', 'attr', NULL))
    FROM jsonb_array_elements(line.{}) AS item)"""

# The line means this number. It is not that of another account, such as 12.0 besides 12.
_MEANS = """(line.external_account_number = {0} OR line.meant_number = {0} AND NOT EXISTS (
        SELECT FROM account_import_process AS own
        WHERE own.import_supplier_id = :import_supplier_id
              AND own.external_account_number = line.external_account_number))"""

#: The lines that mean the number, and lines without one whose text contains it. All have an index. A worker
#: locks the lines that it processes, so this waits for their outcomes and then erases them.
ERASE_LINES = text(f"""
    WITH kept AS MATERIALIZED (
        SELECT id FROM batch WHERE import_supplier_id = :import_supplier_id AND lines_removed_at IS NULL),
    found AS MATERIALIZED (
        SELECT batch_id, line_number FROM kept JOIN batch_line ON batch_id = kept.id
        WHERE external_account_number = :number
        UNION
        SELECT batch_id, line_number FROM kept JOIN batch_line AS line ON batch_id = kept.id
        WHERE line.meant_number = :number AND {_MEANS.format(":number")}
        UNION
        SELECT batch_id, line_number FROM kept JOIN batch_line ON batch_id = kept.id
        WHERE external_account_number IS NULL AND greatest(
            position(CAST(:plain AS bytea) IN payload), position(CAST(:escaped AS bytea) IN payload)) > 0)
    UPDATE batch_line AS line
    SET payload = NULL, understood = NULL, warnings = {_CODES_ONLY.format("warnings")},
        status = CASE WHEN line.status IN ({_OPEN}) THEN '{LineStatus.SKIPPED}' ELSE line.status END,
        errors = CASE WHEN line.status IN ({_OPEN}) THEN
            '[{{"detail": "Erased.", "code": "{AccountMarkedToSkipError.code}", "attr": null}}]'
            ELSE {_CODES_ONLY.format("errors")} END
    FROM found
    WHERE line.batch_id = found.batch_id AND line.line_number = found.line_number
    RETURNING line.batch_id, line.line_number
""")

#: Lines of a batch that have just got their outcome and whose account was erased before: some lines, and all
#: that failed. The numbers are there twice, so that each line is read by its own, whatever the statistics say
#: of a batch that has just arrived.
ERASE_OUTCOMES, ERASE_FAILED = (
    text(f"""
        UPDATE batch_line AS line
        SET payload = NULL, understood = NULL, errors = {_CODES_ONLY.format("errors")},
            warnings = {_CODES_ONLY.format("warnings")}
        {chosen} line.batch_id = :batch_id
          AND EXISTS (
              SELECT FROM unnest(ARRAY[line.external_account_number, line.meant_number]) AS meant (number)
              WHERE {_MEANS.format("meant.number")}
                AND (EXISTS (SELECT FROM skip_mark
                             WHERE import_supplier_id = :import_supplier_id
                               AND external_account_number = meant.number AND erased_at IS NOT NULL OFFSET 0)
                     OR EXISTS (SELECT FROM account_import_process AS process
                                WHERE import_supplier_id = :import_supplier_id
                                  AND external_account_number = meant.number
                                  AND EXISTS (SELECT FROM account
                                              WHERE account_import_process_id = process.id
                                                AND erased_at IS NOT NULL OFFSET 0) OFFSET 0)))
    """).bindparams(*parameters)
    for chosen, parameters in (
        (
            "FROM unnest(:line_numbers) AS wanted (line_number)"
            " WHERE line.line_number = ANY (:line_numbers) AND line.line_number = wanted.line_number AND",
            [bindparam("line_numbers", type_=ARRAY(BigInteger))],
        ),
        (f"WHERE line.status = '{LineStatus.FAILED}' AND", []),
    )
)

MARK_ERASED = text("""
    UPDATE skip_mark SET erased_at = coalesce(erased_at, now())
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = :number
""")

#: Accounts first staged while they were being erased, so that neither transaction saw the other.
LOCK_STAGED_AGAIN = text(f"""
    SELECT process.id FROM skip_mark AS mark
    JOIN account_import_process AS process USING (import_supplier_id, external_account_number)
    WHERE mark.erased_at IS NOT NULL
      AND process.state IN ({literals([ImportState.PENDING, ImportState.SKIPPED])})
    LIMIT :limit FOR UPDATE OF process SKIP LOCKED
""")

#: A reason may contain anything. The acknowledgement, its author and its time are kept.
ERASE_REASONS = text("""
    UPDATE acknowledgement SET reason = 'Erased.'
    WHERE import_supplier_id = :import_supplier_id AND (external_account_number = :number OR EXISTS (
        SELECT FROM unnest(CAST(:batch_ids AS uuid[]), CAST(:line_numbers AS bigint[])) AS it (batch_id, line)
        WHERE acknowledgement.external_account_number IS NULL
              AND it.batch_id = acknowledgement.batch_id AND it.line = acknowledgement.line_number))
""")

#: The hashes of a payload would confirm a correct guess.
ERASE_PROCESS = text("""
    UPDATE account_import_process SET payload = NULL, warnings = NULL, payload_sha256 = '',
        content_hash = NULL, refused_at = NULL, refused_errors = NULL, refused_extracted_at = NULL,
        refused_batch_id = NULL, refused_line_number = NULL, refused_sent_at = NULL, refused_payload = NULL
    WHERE id = :process_id
""")

ERASE_ATTEMPTS = text("""
    UPDATE attempt SET errors = NULL, error_detail = NULL WHERE account_import_process_id = :process_id
""")

#: Wait for the pieces of comparisons and certificates that read the account before, and start no further one.
LOCK_COMPARISONS = text("""
    SELECT FROM comparison
    WHERE import_supplier_id = :import_supplier_id AND finished_at IS NULL FOR UPDATE
""")
LOCK_CERTIFICATES = text("""
    SELECT FROM certificate
    WHERE import_supplier_id = :import_supplier_id AND finished_at IS NULL ORDER BY id FOR UPDATE
""")

#: What differed in the account when it was last compared, what the old system says of it, and the salt of its
#: hashes in certificates, whose leaf stays.
ERASE_COMPARED = text("""
    WITH kept AS (SELECT id FROM comparison WHERE import_supplier_id = :import_supplier_id),
    figures AS (
        DELETE FROM old_figure
        WHERE import_supplier_id = :import_supplier_id AND external_account_number = :number),
    figure_differences AS (
        DELETE FROM figure_difference USING kept
        WHERE comparison_id = kept.id AND external_account_number = :number),
    certified AS (
        UPDATE certificate_leaf SET entry = NULL FROM certificate
        WHERE certificate.import_supplier_id = :import_supplier_id AND certificate_id = certificate.id
          AND external_account_number = :number)
    DELETE FROM compared_account USING kept
    WHERE comparison_id = kept.id AND external_account_number = :number
""")

REMOVE_ATTEMPTS = text("DELETE FROM attempt WHERE account_import_process_id = ANY (:process_ids)")
REMOVE_PROCESSES = text("DELETE FROM account_import_process WHERE id = ANY (:process_ids)")


def _schema_of(model: type[Base]) -> Schema:
    if model is Account:
        return ACCOUNT_IMPORT
    source = cast(type[Part], model).sources[0]
    return cast(Nested, _schema_of(source.parent).fields[source.key]).schema


def _is_erased(model: type[Base], column: Column[Any]) -> bool:
    """Return whether the field of a column's value, or of the document that it leads to, is erased."""
    schema: Any = _schema_of(model)
    *above, name = column.info.get("document") or path_of(column)
    for part in above:
        schema = schema.fields[part].schema
    field = schema.fields.get(name)
    return bool(getattr(getattr(field, "inner", field), "erased", False))


def _empty(model: type[Base]) -> TextClause | None:
    """Return the statement that empties the columns of a model's rows that are erased."""
    table = table_of(model)
    columns = [it.name for it in payload_columns(model) if _is_erased(model, it)]
    values = ", ".join(f"{name} = NULL" for name in columns)
    return text(f"UPDATE {table.name} SET {values} WHERE {rows_of_accounts()[table]}") if columns else None


@cache
def erasing_statements() -> dict[str, TextClause]:
    """Return the statements that erase what is personal in accounts, by table and in order."""
    removed = statements_about_persons()
    models: list[type[Base]] = [Account, *Part.__subclasses__()]
    kept = [it for it in models if table_of(it).name not in removed]
    emptied = {table_of(it).name: _empty(it) for it in kept}
    return removed | {name: statement for name, statement in emptied.items() if statement is not None}


MARK_ACCOUNT = text("UPDATE account SET erased_at = coalesce(erased_at, now()) WHERE id = :account_id")
