"""How the server reaches the world outside: its mail server, and the networks that webhooks may lead to."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from environ import Env

PORTS = {"smtp": 25, "smtp+tls": 587, "smtp+ssl": 465}
NO_MAIL = {"EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend"}

Networks = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]


def mail_server(url: str) -> dict[str, object]:
    """Django's settings for EMEP_EMAIL_URL; it may hold a password, so a refusal does not repeat it."""
    if not url:
        return dict(NO_MAIL)
    try:
        parts = urlsplit(url)
        good = bool(parts.scheme in PORTS and parts.hostname and (parts.port is None or parts.port > 0))
        made: dict[str, object] = Env.email_url_config(url) if good else {}
    except ValueError:
        made = {}
    if not made:
        raise ImproperlyConfigured(
            "EMEP_EMAIL_URL must be like smtp+tls://USER:PASSWORD@HOST:587, smtp+ssl://... or smtp://...; "
            "leave it out to send no e-mail"
        )
    known = {name: value for name, value in made.items() if name.startswith("EMAIL_") and value is not None}
    return known | {"EMAIL_PORT": parts.port or PORTS[parts.scheme]}


def sender(address: str) -> str:
    """The address that e-mail comes from."""
    if "@" not in address or not address.isprintable():
        raise ImproperlyConfigured(f"EMEP_EMAIL_FROM must be an e-mail address, not {address!r}")
    return address


def networks(name: str, given: list[str]) -> Networks:
    """The networks of the environment variable ``name``."""
    try:
        return tuple(ipaddress.ip_network(each.strip()) for each in given if each.strip())
    except ValueError as wrong:
        raise ImproperlyConfigured(f"{name} must be networks like 10.1.0.0/16,fd00:1::/64: {wrong}") from wrong


def ports(name: str, given: list[str]) -> tuple[int, ...]:
    """The port numbers of the environment variable ``name``."""
    found = tuple(int(each) if each.strip().isascii() and each.strip().isdigit() else 0 for each in given)
    if not found or not all(1 <= each <= 65535 for each in found):
        raise ImproperlyConfigured(f"{name} must be ports like 443,8443, each 1 to 65535, not {','.join(given)!r}")
    return found
