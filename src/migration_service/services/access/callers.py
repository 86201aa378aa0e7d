"""The sender of a request. Separate from `tokens`, so that workers need not load the signing libraries."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request, as identified by its token."""

    organisation_id: int
    api_key_id: int
    #: The prefix of the API key, which may be shown.
    prefix: str = ""
    #: The scopes of the key, or None for every scope.
    scopes: frozenset[str] | None = None
    #: The import suppliers that the key is limited to, or None for all of the organisation.
    import_supplier_ids: frozenset[int] | None = None
