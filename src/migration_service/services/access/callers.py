"""Who sends a request. Apart from `tokens`, so that workers do not load what tokens are signed with."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request, as identified by its token."""

    organisation_id: int
    api_key_id: int
    #: The prefix of the key, which may be shown.
    prefix: str = ""
    #: The scopes of the key; None: every scope.
    scopes: frozenset[str] | None = None
    #: The import suppliers that the key is limited to; None: every one of the organisation.
    import_supplier_ids: frozenset[int] | None = None
