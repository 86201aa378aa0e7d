"""The members of bodies that say who decided, and why."""

from migration_payloads.schemas.fields import Identifier


def decided_by() -> Identifier:
    """Return the field for the name of a person. The audit has it beside the API key."""
    return Identifier(
        "Who decided, if a person did. The audit keeps it beside the API key.", "Grace", max_length=128
    )


def reason_of(example: str, about: str = "The reason.") -> Identifier:
    """Return the field for why it was decided. It is kept with what was decided, and in the audit."""
    text = f"{about} It is kept: no personal data."
    return Identifier(text, example, required=True, max_length=1_000)
