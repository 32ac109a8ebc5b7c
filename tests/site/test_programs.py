"""What the supervisor is told to start, and in which order it stops."""

from __future__ import annotations

import configparser
import os
import shutil
import sys
from pathlib import Path

from emep_site.embedded import broker, demo_files, programs


def chosen(**kw):
    node = programs.NodeFiles("node-1", Path("/s"), Path("/t"), "simulated:/g.yaml")
    usual = {"base": Path("/app"), "host": "127.0.0.1", "port": 8000, "broker": ["valkey-server"], "nodes": [node]}
    return programs.of(**{**usual, "grace_s": 120.0, **kw})


def test_the_scheduler_stops_first_then_agents_and_the_broker_last():
    order = [p.name for p in sorted(chosen(), key=lambda p: -p.priority)]
    assert order == ["scheduler", "agent-node-1", "keeper-node-1", "celery", "web", "broker"]


def test_an_agent_has_the_whole_grace_to_save_its_jobs():
    agent = next(p for p in chosen() if p.name == "agent-node-1")
    assert agent.stop_s == 150


def test_an_outside_broker_is_not_started():
    assert "broker" not in [p.name for p in chosen(broker=None)]


def test_every_child_is_on_a_leash(tmp_path):
    text = programs.configuration(
        chosen(), run_dir=tmp_path, logs=tmp_path, base=Path("/app"), environment={"A": "100%"}
    )
    parsed = configparser.RawConfigParser()
    parsed.read_string(text)
    commands = {s: parsed[s]["command"] for s in parsed.sections() if s.startswith("program:")}
    assert len(commands) == 6
    assert all("leash.py" in c for c in commands.values())


def test_percent_signs_survive_the_configuration(tmp_path):
    text = programs.configuration(
        chosen(), run_dir=tmp_path, logs=tmp_path, base=Path("/app"), environment={"A": "100%"}
    )
    assert 'environment=A="100%%"' in text


def test_the_bundled_broker_is_found():
    assert broker.binary() is not None


def test_a_long_path_gets_a_short_socket(tmp_path):
    assert len(str(broker.socket_path(tmp_path / ("x" * 120)))) <= broker.MAX_SOCKET_PATH


def test_an_edited_simulation_is_kept(tmp_path):
    path = tmp_path / "gpus.yaml"
    demo_files.simulated_gpus("node-1", path)
    path.write_text("edited")
    demo_files.simulated_gpus("node-1", path)
    assert path.read_text() == "edited"


def test_known_sign_ins_survive_a_second_start(tmp_path):
    path = tmp_path / "demo.json"
    demo_files.write(path, "http://x", {"alice": {"password": "p", "token": "t"}}, {"a": "1"}, {"d": "2"})
    again = demo_files.write(path, "http://y", {}, {}, {})
    assert again == {
        "url": "http://y",
        "project": "alpha",
        "users": {"alice": {"password": "p", "token": "t"}},
        "models": {"a": "1"},
        "datasets": {"d": "2"},
    }
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_jobs_python_is_the_one_that_runs_the_set():
    found = programs.paths(Path("/app"), {"PATH": "/usr/bin", "PYTHONPATH": "/mine"})
    assert shutil.which("python", path=found["PATH"]) == str(Path(sys.executable).with_name("python"))
    assert found["PATH"].endswith(f"{os.pathsep}/usr/bin")
    assert found["PYTHONPATH"] == f"/app{os.pathsep}/mine"
    assert programs.paths(Path("/app"), {})["PYTHONPATH"] == "/app"
