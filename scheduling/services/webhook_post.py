"""One POST to one address: bounded in time and bytes, following nothing."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from uuid import UUID

from django.conf import settings

from scheduling.services import webhook_address
from scheduling.services.webhook_address import Refused, Target
from scheduling.store.commit.notice_sending import Tried

CONNECT_S = 5.0
TOTAL_S = 10.0
MAX_ANSWER = 4096
SHOWN = 200
SECRET_PREFIX = "emephs_"  # noqa: S105  the beginning of every secret, no secret
GONE = 410


def secret_of(webhook: UUID, number: int) -> str:
    """The webhook's secret, which is stored nowhere: it follows from the server's key and changes with ``number``."""
    made = hmac.new(settings.SECRET_KEY.encode(), f"webhook:{webhook}:{number}".encode(), hashlib.sha256).digest()
    return SECRET_PREFIX + base64.urlsafe_b64encode(made).decode().rstrip("=")


def signature(secret: str, at: int, body: bytes) -> str:
    """What ``X-EMEP-Signature`` says of this body, sent at ``at`` (seconds since 1970)."""
    made = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256)
    return f"t={at},v1={made.hexdigest()}"


def post(url: str, body: bytes, headers: Mapping[str, str]) -> Tried:
    """What came of sending it; never raises for what the other side does. Redirects are not followed."""
    begin = time.monotonic()
    where = webhook_address.target(url)
    if isinstance(where, Refused):
        return Tried(ok=False, ms=_since(begin), error=where.message)
    connection = _Pinned(where)
    # A server that sends a byte now and then would keep every single wait short.
    watch = threading.Timer(TOTAL_S, connection.cut)
    watch.daemon = True
    watch.start()
    try:
        connection.request("POST", where.path, body=body, headers={"Host": where.host_header, **headers})
        answer = connection.getresponse()
        return _told(answer.status, answer.read(MAX_ANSWER), where, _since(begin))
    except (OSError, http.client.HTTPException, ValueError) as problem:
        return Tried(ok=False, ms=_since(begin), error=_why(problem, where, too_slow=connection.was_cut))
    finally:
        watch.cancel()
        connection.close()


class _Pinned(http.client.HTTPConnection):
    """A connection to the one address that was looked at, whatever the name may lead to by now."""

    def __init__(self, where: Target) -> None:
        super().__init__(where.host, where.port, timeout=CONNECT_S)
        self._where = where
        self.was_cut = False

    def connect(self) -> None:
        """TCP, and over it TLS in the name of the host."""
        self.sock = socket.create_connection((self._where.address, self._where.port), timeout=CONNECT_S)
        if self._where.tls:
            context = ssl.create_default_context()
            # Without the handshake first, so that cutting it off reaches this socket.
            secured = context.wrap_socket(self.sock, server_hostname=self._where.host, do_handshake_on_connect=False)
            self.sock = secured
            secured.do_handshake()
        self.sock.settimeout(TOTAL_S)

    def cut(self) -> None:
        """Whatever waits for the other side waits no more."""
        self.was_cut = True
        if self.sock is not None:
            try:
                self.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return


def _told(status: int, answer: bytes, where: Target, ms: int) -> Tried:
    # What stands inside a network is not shown to whoever can make the server ask there.
    shown = "" if where.inside else readable(answer)
    if 200 <= status < 300:
        return Tried(ok=True, ms=ms, status=status, answer=shown)
    if 300 <= status < 400:
        error = f"it answered {status}: redirects are not followed; give the address that it leads to"
    else:
        error = f"it answered {status}; any of 200 to 299 says that it has arrived"
    return Tried(ok=False, ms=ms, status=status, answer=shown, error=error, gone=status == GONE)


def readable(answer: bytes) -> str:
    """The first characters of an answer, without what can't be shown."""
    text = answer.decode("utf-8", "replace")[:SHOWN]
    return "".join(c if c.isprintable() else " " for c in text).strip()


def _why(problem: Exception, where: Target, *, too_slow: bool) -> str:
    if too_slow or isinstance(problem, TimeoutError):
        return f"no whole answer within {TOTAL_S:g} s ({CONNECT_S:g} s to connect)"
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"the certificate of {where.host} is not good: {problem.verify_message}"
    if isinstance(problem, ssl.SSLError):
        return f"TLS with {where.host} failed: {problem.reason or 'no reason given'}"
    if isinstance(problem, ConnectionRefusedError):
        return f"nobody listens at port {where.port} of {where.host}"
    if isinstance(problem, OSError):
        return f"{where.host} can't be reached: {problem.strerror or 'the connection broke'}"
    return f"{where.host} does not answer as HTTP does"


def _since(begin: float) -> int:
    return round(1000 * (time.monotonic() - begin))
