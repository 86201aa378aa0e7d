"""Query string and answers of the endpoints for reconciliation."""

from marshmallow import fields

from migration_service.schemas.base import Answer, Fields
from migration_service.schemas.fields import Identifier
from migration_service.states import ImportState


class ReconciliationArgumentsSchema(Fields):
    """The query string of a reconciliation."""

    batch = Identifier(
        metadata={
            "description": "Only the accounts that are on the lines of this batch.",
            "schema": {"type": "string", "format": "uuid"},
        }
    )


class DifferenceSchema(Answer):
    """A measure in which an account, or everything together, was staged and created."""

    measure = fields.String()
    staged = fields.Float()
    created = fields.Float()


class AccountDifferenceSchema(Answer):
    """An account that is not as it was staged."""

    external_account_number = fields.String()
    service_account_number = fields.String(allow_none=True)
    state = fields.String(metadata={"enum": [state.value for state in ImportState]})
    differences = fields.List(fields.Nested(DifferenceSchema))


class ReconciliationSchema(Answer):
    """What was staged against what was created."""

    import_supplier = fields.String()
    differences = fields.List(fields.Nested(AccountDifferenceSchema))
    totals = fields.List(fields.Nested(DifferenceSchema))
    skipped = fields.Integer(metadata={"description": "Accounts that operators took out: in no total."})
    not_comparable = fields.Integer(
        metadata={"description": "Created accounts whose staged payload is not kept any more."}
    )
    differing = fields.Integer(metadata={"description": "How many accounts differ."})
    clean = fields.Boolean(metadata={"description": "No account differs."})
