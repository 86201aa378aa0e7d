"""The permissions of an API key: its scopes, import suppliers and client addresses."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address, ip_network

from migration_service.errors import NetworkInvalidError, PermissionDeniedError


class Scope(StrEnum):
    """The permissions that a key can have."""

    #: Statuses, lists, reports and the results of batches.
    READ = "read"
    #: Checking payloads.
    VALIDATE = "validate"
    #: Storing payloads.
    STAGE = "stage"
    #: Creating single accounts.
    PROCESS = "process"
    #: Adding notes, transactions, statements and payment instructions.
    ADDED_DATA = "added_data"
    #: Starting and controlling batches of any mode.
    BATCHES = "batches"
    #: Erasing the personal data of an account.
    ERASE = "erase"
    #: Listing and ending the sessions of the organisation.
    SESSIONS = "sessions"
    #: Removing created accounts, until they go live.
    UNDO = "undo"
    #: Deciding that accounts go live, after which nobody can undo them.
    GO_LIVE = "go_live"
    #: Replacing created accounts by a newer version, until their go-live.
    REPLACE = "replace"
    #: Setting up webhooks, which are sent every event.
    WEBHOOKS = "webhooks"
    #: Undoing accounts although something blocks them. A key without limits does not have it.
    OVERRIDE = "override"


def require_scope(granted: Collection[str] | None, accepted: Sequence[Scope]) -> None:
    """Raise PermissionDeniedError unless `scopes` has one of `accepted`. None stands for every scope."""
    if granted is not None and not any(scope in granted for scope in accepted):
        wanted = " or ".join(repr(scope.value) for scope in accepted)
        raise PermissionDeniedError(f"The API key does not have the scope {wanted}.")


#: Parses a network, as every request of a key with networks needs it.
_network = lru_cache(maxsize=1_000)(ip_network)


def require_address(networks: Sequence[str] | None, address: str | None) -> None:
    """Raise PermissionDeniedError unless `address` is in one of `networks`. None allows every address."""
    if networks is None:
        return
    try:
        parsed: IPv4Address | IPv6Address | None = ip_address(address or "")
    except ValueError:
        parsed = None
    mapped = getattr(parsed, "ipv4_mapped", None)
    if parsed is None or not any((mapped or parsed) in _network(it) for it in networks):
        raise PermissionDeniedError(f"The API key may not be used from the address {address}.")


def parse_network(text: str) -> str:
    """Return a network in its normal form, such as `192.0.2.0/24`. Raise NetworkInvalidError."""
    try:
        network = ip_network(text.strip())
    except ValueError:
        raise NetworkInvalidError(found=text) from None
    # Addresses are compared as those of IPv4, too.
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    return str(IPv4Network((mapped, network.prefixlen - 96)) if mapped else network)
