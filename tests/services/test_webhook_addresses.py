"""Where webhooks may lead: nowhere inside, whatever it is called and whenever it is asked (C-71, I33)."""

from __future__ import annotations

import http.client
import ipaddress
import socket

import pytest

from scheduling.services import webhook_address, webhook_post
from scheduling.services.webhook_address import Refused, Target, allowed
from tests.services.receiver import dripping, receiving

PUBLIC = "93.184.216.34"


def named(monkeypatch, *addresses: str) -> None:
    """Every name leads there."""

    def found(host, port, *_, **__):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    monkeypatch.setattr("scheduling.services.webhook_address.socket.getaddrinfo", found)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]",
     "169.254.169.254", "[fd00::1]", "[fe80::1]", "100.64.0.1", "10.1.2.3", "172.16.0.9", "192.168.1.1", "224.0.1.1",
     "255.255.255.255", "240.0.0.1", "[64:ff9b::a00:1]", "[2002:a00:1::1]", "[::]", "[ff0e::1]", "localhost.",
     "localhost"],
)  # fmt: skip
def test_nothing_inside_is_an_address(host):
    found = webhook_address.target(f"https://{host}/hook")
    assert isinstance(found, Refused)
    assert found.code == "private_address"


@pytest.mark.parametrize("name", ["metadata.google.internal", "printer.local", "x.localhost", "LOCALHOST", "nas.lan"])
def test_names_of_the_inside_are_refused_before_they_are_looked_up(monkeypatch, name):
    monkeypatch.setattr("scheduling.services.webhook_address.socket.getaddrinfo", lambda *_: pytest.fail("looked up"))
    assert webhook_address.target(f"https://{name}/").code == "private_address"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://ci.example/", "bad_url"),
        ("gopher://ci.example/", "bad_url"),
        ("file:///etc/passwd", "bad_url"),
        ("ftp://ci.example/", "bad_url"),
        ("//ci.example/", "bad_url"),
        ("https://", "bad_url"),
        ("https://ci.example:0x50/", "bad_url"),
        ("https://ci.example:99999/", "bad_url"),
        ("https://ci.example:8080/", "bad_port"),
        ("https://ci.example:22/", "bad_port"),
        ("https://me:secret@ci.example/", "credentials_in_url"),
        ("https://me@ci.example/", "credentials_in_url"),
        ("https://ci.example/a\r\nX: y", "bad_url"),
        ("https://ci.example/a b", "bad_url"),
        ("https://ci.example\\@10.0.0.1/", "bad_url"),
        ("https://[fe80::1%25eth0]/", "bad_url"),
        ("https://ci.example/#top", "bad_url"),
        ("https://ci.ex\u00e4mple/", "bad_url"),
        ("https://ci.example/" + "x" * 2048, "too_long"),
    ],
)
def test_what_is_no_address_is_refused_before_it_is_looked_up(monkeypatch, url, code):
    monkeypatch.setattr("scheduling.services.webhook_address.socket.getaddrinfo", lambda *_: pytest.fail("looked up"))
    found = webhook_address.target(url)
    assert isinstance(found, Refused)
    assert (found.code, bool(found.message)) == (code, True)


def test_a_name_with_one_public_and_one_private_address_is_refused(monkeypatch):
    named(monkeypatch, PUBLIC, "10.0.0.1")
    assert webhook_address.target("https://ci.example/").code == "private_address"


def test_a_name_that_is_not_there_is_said_so(monkeypatch):
    def none(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("scheduling.services.webhook_address.socket.getaddrinfo", none)
    assert webhook_address.target("https://ci.exmaple/").code == "unknown_host"


def test_a_good_address_is_pinned_to_what_it_was_looked_up_as(monkeypatch):
    named(monkeypatch, PUBLIC)
    found = webhook_address.target("https://ci.example/hooks/emep?x=1")
    assert found == Target(True, "ci.example", 443, "/hooks/emep?x=1", PUBLIC, inside=False)
    assert found.host_header == "ci.example"


def test_an_operator_opens_networks_ports_and_http(settings, monkeypatch):
    settings.WEBHOOK_HTTP, settings.WEBHOOK_PORTS = True, (80, 8443)
    settings.WEBHOOK_NETWORKS = (ipaddress.ip_network("10.1.0.0/16"),)
    named(monkeypatch, "10.1.2.3")
    found = webhook_address.target("http://ci.internal/")
    assert isinstance(found, Target)
    assert (found.inside, found.tls, found.port) == (True, False, 80)
    assert webhook_address.target("https://ci.internal:8443/").host_header == "ci.internal:8443"
    named(monkeypatch, "10.2.0.1")
    assert webhook_address.target("http://ci.internal/").code == "private_address"
    assert not allowed(ipaddress.ip_address("169.254.169.254"))


@pytest.fixture
def here(settings):
    """The webhooks of this test may lead to this machine."""
    settings.WEBHOOK_HTTP, settings.WEBHOOK_NETWORKS = True, (ipaddress.ip_network("127.0.0.0/8"),)

    def open_port(port: int) -> None:
        settings.WEBHOOK_PORTS = (port,)

    return open_port


def test_a_post_arrives_whole_and_its_time_is_told(here):
    with receiving() as other:
        here(other.port)
        tried = webhook_post.post(other.url, b'{"a":1}', {"X-Mine": "yes"})
    headers, body = other.got[0]
    assert (tried.ok, tried.status, tried.error) == (True, 200, "")
    assert tried.ms >= 0
    assert (body, headers["X-Mine"], headers["Host"]) == (b'{"a":1}', "yes", f"127.0.0.1:{other.port}")


def test_what_stands_inside_is_not_shown_and_what_stands_outside_is(here, monkeypatch):
    with receiving() as other:
        here(other.port)
        other.answer = lambda _: (500, b"secret\x00\n" + b"x" * 9000, {})
        assert webhook_post.post(other.url, b"", {}).answer == ""
        named(monkeypatch, PUBLIC)  # the name leads outside, and outside is played by this machine

        def rerouted(address, timeout):
            assert address == (PUBLIC, other.port)
            made = socket.socket()
            made.settimeout(timeout)
            made.connect(("127.0.0.1", other.port))
            return made

        monkeypatch.setattr("scheduling.services.webhook_post.socket.create_connection", rerouted)
        tried = webhook_post.post(f"http://ci.example:{other.port}/", b"", {})
    assert (tried.status, tried.answer) == (500, "secret  " + "x" * 192)
    assert other.got[-1][0]["Host"] == f"ci.example:{other.port}"


def test_a_name_that_leads_inside_by_the_time_it_is_used_is_refused_then(settings, monkeypatch):
    named(monkeypatch, PUBLIC)
    assert isinstance(webhook_address.target("https://ci.example/"), Target)
    named(monkeypatch, "127.0.0.1")
    monkeypatch.setattr(
        "scheduling.services.webhook_post.socket.create_connection", lambda *_, **__: pytest.fail("sent")
    )
    tried = webhook_post.post("https://ci.example/", b"", {})
    assert (tried.ok, tried.status) == (False, None)
    assert "no address in the Internet" in tried.error


def test_a_redirect_is_not_followed(here):
    with receiving() as other, receiving() as inside:
        here(other.port)
        other.answer = lambda _: (302, b"", {"Location": inside.url})
        tried = webhook_post.post(other.url, b"", {})
    assert (tried.ok, tried.status, inside.got) == (False, 302, [])
    assert "redirects are not followed" in tried.error


@pytest.mark.parametrize(("status", "ok", "gone"), [(204, True, False), (404, False, False), (410, False, True)])
def test_what_the_status_means(here, status, ok, gone):
    with receiving() as other:
        here(other.port)
        other.answer = lambda _: (status, b"", {})
        tried = webhook_post.post(other.url, b"", {})
    assert (tried.ok, tried.gone) == (ok, gone)


def test_a_server_that_drips_is_cut_off(here, monkeypatch):
    monkeypatch.setattr(webhook_post, "TOTAL_S", 0.4)
    with dripping() as port:
        here(port)
        tried = webhook_post.post(f"http://127.0.0.1:{port}/", b"", {})
    assert (tried.ok, tried.status) == (False, None)
    assert "no whole answer within 0.4 s" in tried.error
    assert tried.ms < 5000


def test_nobody_who_listens_is_told_as_that(here):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    here(port)
    assert (
        webhook_post.post(f"http://127.0.0.1:{port}/", b"", {}).error == f"nobody listens at port {port} of 127.0.0.1"
    )


def test_what_is_no_tls_is_told_as_that(here, settings):
    with receiving() as other:
        here(other.port)
        tried = webhook_post.post(f"https://127.0.0.1:{other.port}/", b"", {})
    assert (tried.ok, other.got) == (False, [])
    assert "TLS with 127.0.0.1 failed" in tried.error


def test_what_is_no_http_is_told_as_that(here, monkeypatch):
    monkeypatch.setattr(
        http.client.HTTPResponse, "begin", lambda _: (_ for _ in ()).throw(http.client.BadStatusLine("?"))
    )
    with receiving() as other:
        here(other.port)
        assert "does not answer as HTTP does" in webhook_post.post(other.url, b"", {}).error
