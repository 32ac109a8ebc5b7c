"""May the server send to that address? Looked at when a webhook is saved, and again each time before it is used."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from scheduling.core.resources import Limit

MAX_URL = 2048
PORTS = {"https": 443, "http": 80}
# Names that stand for the inside of somebody's network, whatever they resolve to.
INSIDE = ("localhost", ".localhost", ".internal", ".local", ".intranet", ".lan", ".home.arpa")
# IPv6 addresses in which an IPv4 address of any kind may be hidden.
TUNNELS = tuple(ipaddress.ip_network(each) for each in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"))

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Target:
    """Where a POST goes: to ``address`` and nowhere else, in the name of ``host``. ``inside``: only an operator's
    setting lets it be sent there."""

    tls: bool
    host: str
    port: int
    path: str
    address: str
    inside: bool

    @property
    def host_header(self) -> str:
        """What the Host header says."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == PORTS["https" if self.tls else "http"] else f"{name}:{self.port}"


@dataclass(frozen=True, slots=True)
class Refused:
    """Why nothing is sent there; ``limit`` is what is accepted."""

    code: str
    message: str
    limit: Limit = None


def target(url: str) -> Target | Refused:
    """Where the address leads, with its name looked up once; every address that the name has must be allowed."""
    parts = _parts(url)
    if isinstance(parts, Refused):
        return parts
    host, port = str(parts.hostname), parts.port or PORTS[parts.scheme]
    if refused := _named_inside(host):
        return refused
    found = _resolved(host, port)
    if isinstance(found, Refused):
        return found
    barred = [each for each in found if not allowed(each)]
    if barred:
        return Refused(
            "private_address",
            f"{host} leads to {barred[0]}, which is no address in the Internet: give one that is, or ask whoever runs "
            "this server to open its network to webhooks (EMEP_WEBHOOK_NETWORKS)",
        )
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme == "https", host, port, path, str(found[0]), inside=not is_global(found[0]))


def _parts(url: str) -> SplitResult | Refused:
    schemes = ("https", "http") if settings.WEBHOOK_HTTP else ("https",)
    if len(url) > MAX_URL:
        return Refused("too_long", f"url may have at most {MAX_URL} characters", MAX_URL)
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return Refused("bad_url", "url must be of printable ASCII characters without spaces; write others as %XX")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return Refused("bad_url", "url must be an address like https://ci.example/hooks/emep")
    if parts.scheme not in schemes or not parts.netloc or not host:
        only = "" if settings.WEBHOOK_HTTP else "; http:// is refused here (EMEP_WEBHOOK_HTTP)"
        return Refused("bad_url", f"url must be an address like https://ci.example/hooks/emep{only}", schemes)
    if parts.username is not None or parts.password is not None:
        return Refused("credentials_in_url", "url may hold no name or password: the signature says who sends")
    if parts.fragment:
        return Refused("bad_url", f"url may have no fragment: remove #{parts.fragment[:40]}")
    if "%" in host:
        return Refused("bad_url", "the host of url may have no zone and no %: give its name")
    if (port or PORTS[parts.scheme]) not in settings.WEBHOOK_PORTS:
        known = ", ".join(map(str, settings.WEBHOOK_PORTS))
        return Refused("bad_port", f"url may lead to port {known} only (EMEP_WEBHOOK_PORTS)", known)
    return parts


def _named_inside(host: str) -> Refused | None:
    name = f".{host.rstrip('.').lower()}"
    if settings.WEBHOOK_NETWORKS or not any(name.endswith(f".{each.lstrip('.')}") for each in INSIDE):
        return None
    return Refused("private_address", f"{host[:80]} is a name inside a network: give an address in the Internet")


def _resolved(host: str, port: int) -> list[Address] | Refused:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return Refused("unknown_host", f"there is no host {host[:80]!r}: look for a typing error")
    return [ipaddress.ip_address(str(each[4][0]).split("%")[0]) for each in found]


def allowed(address: Address) -> bool:
    """Whether something may be sent there: it is in the Internet, or in a network of EMEP_WEBHOOK_NETWORKS."""
    plain = _plain(address)
    return is_global(address) or any(plain in each for each in settings.WEBHOOK_NETWORKS)


def is_global(address: Address) -> bool:
    """Whether anybody in the Internet means the same host by that address."""
    plain = _plain(address)
    if plain.version == 6 and any(plain in each for each in TUNNELS):
        return False
    special = plain.is_multicast or plain.is_unspecified or plain.is_reserved or plain.is_loopback
    return plain.is_global and not special and not plain.is_link_local


def _plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
