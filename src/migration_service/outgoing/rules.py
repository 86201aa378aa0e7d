"""Which URLs and addresses may be connected to, if clients have chosen them.

Separate from `guarded`, because web processes check URLs, but send no requests.
"""

import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

#: The longest URL, in characters.
LONGEST_URL = 2_048

#: IPv6 networks whose last 32 bits are an IPv4 address (NAT64).
_TRANSLATED = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))

Network = IPv4Network | IPv6Network


class AddressNotAllowedError(OSError):
    """The name has an address that may not be connected to."""


@dataclass(frozen=True, slots=True)
class AddressRules:
    """Which URLs and addresses may be connected to: public ones, and those that the settings allow."""

    #: Networks that are allowed although they are not public.
    networks: tuple[Network, ...] = ()
    #: Whether http is allowed, too, which encrypts nothing.
    allows_http: bool = False

    @classmethod
    def from_texts(cls, networks: str, *, allows_http: bool) -> "AddressRules":
        """Return the rules for networks separated by commas. Raise ValueError if one of them is none."""
        given = tuple(ip_network(it.strip()) for it in networks.split(",") if it.strip())
        return cls(given, allows_http)

    def allows(self, address: str) -> bool:
        """Return whether this IP address may be connected to."""
        found = ip_address(address.partition("%")[0])
        inner = _embedded(found)
        if any(it in network for network in self.networks for it in (found, inner)):
            return True
        return all(_is_public(it) for it in (found, inner))

    def check_url(self, url: str) -> None:
        """Raise ValueError, with a message for the client, if nothing may be sent to this URL.

        A name is not resolved, because it may change later.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if (
            not host
            or port == 0
            or parts.scheme not in ("https", "http")
            or not url.isascii()
            or not url.isprintable()
        ):
            raise ValueError("Expected a URL of the form https://host/path, in ASCII.")
        if " " in url or "\\" in url or len(url) > LONGEST_URL:
            raise ValueError(
                f"Expected a URL without spaces and backslashes, of at most {LONGEST_URL} characters."
            )
        if parts.scheme == "http" and not self.allows_http:
            raise ValueError("The URL must start with https://, so that what is sent is encrypted.")
        if parts.username is not None or parts.password is not None or "#" in url:
            raise ValueError("The URL may not have a user, a password or a fragment.")
        try:
            allowed = self.allows(host)
        except ValueError:  # a name
            return
        if not allowed:
            raise ValueError("The URL leads to an address that is not public.")

    def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host. Raise AddressNotAllowedError if one may not be connected to.

        Raise socket.gaierror if there are none.
        """
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(it[4][0]) for it in found))
        if not all(map(self.allows, addresses)):
            raise AddressNotAllowedError("The host has an address that is not public.")
        return addresses


def show_url(url: str) -> str:
    """Return a URL for logs, the audit and pages: without its user, its query and its fragment.

    These may be secret.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "…"
    place = f"[{host}]" if ":" in host else host
    rest = "?…" if parts.query else ""
    return f"{parts.scheme}://{place}{f':{port}' if port else ''}{parts.path}{rest}"


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address to which an IPv6 address leads, or else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if any(address in network for network in _TRANSLATED):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    # Every condition, because versions of Python differ in what they call global.
    return address.is_global and not (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
        or (isinstance(address, IPv6Address) and address.is_site_local)
    )
