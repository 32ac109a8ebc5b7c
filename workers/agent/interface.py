"""Which of the machine's network interfaces other nodes reach it by."""

from __future__ import annotations

import ipaddress
import socket

import psutil


def interface_of(address: str) -> str | None:
    """The name of the interface that has ``address``, a name or a number; None where none of this machine has.

    Also None for a loopback address, by which no other node could be reached. The first address found that is none of
    both decides.
    """
    try:
        found = [str(entry[4][0]).partition("%")[0] for entry in socket.getaddrinfo(address, None)]
    except (OSError, UnicodeError):
        return None
    names = {
        each.address.partition("%")[0]: name
        for name, addresses in psutil.net_if_addrs().items()
        for each in addresses
        if each.family in (socket.AF_INET, socket.AF_INET6)
    }
    outside = (one for one in found if not ipaddress.ip_address(one).is_loopback)
    return next((names[one] for one in outside if one in names), None)
