"""The member of bodies that name the person who decided."""

from migration_payloads.schemas.fields import Identifier


def decided_by() -> Identifier:
    """Return the field for the name of a person. The audit has it beside the API key."""
    return Identifier(
        "Who decided, if a person did. The audit keeps it beside the API key.", "Grace", max_length=128
    )
