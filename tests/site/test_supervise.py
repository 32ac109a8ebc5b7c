"""What the embedded set tells a person in the terminal."""

from __future__ import annotations

import socket
from types import SimpleNamespace

from emep_site.embedded.supervise import Foreground


def test_it_says_once_that_the_address_answers_and_not_before_it_does(capsys):
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        told = Foreground(SimpleNamespace(), door.getsockname(), "http://pool.example")
        told.tick(1000.0)
        assert capsys.readouterr().out == ""
        door.listen()
        for second in range(3):
            told.tick(1001.0 + second)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith("EMEP answers at http://pool.example")
