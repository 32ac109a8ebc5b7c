"""The database as JSON lines for the checker: first what held for the whole house, then events and final rows.

Plain SQL through a DB-API cursor, so that it reads the file of a house that runs beside as well as a test's database,
on SQLite and PostgreSQL alike, and shares nothing with the product's own reading.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

QUERIES = {
    "event": "SELECT id AS seq, at, type, object, object_id, actor, attempt, epoch, node, message, data"
    " FROM scheduling_event ORDER BY id",
    "job": "SELECT j.id, j.state, q.name AS queue, l.name AS level, l.value AS level_value, p.name AS project,"
    " u.username AS user_name, j.gpu_count, j.node_count, j.gpus_per_node, j.remainder, j.gpu_memory_min_mib,"
    " j.nvlink_required, j.nvlink_exclusive, j.affinity, j.topology, j.not_before, j.max_duration_s, j.submitted_at,"
    " j.ended_at, j.eligible_at, j.epoch, j.attempt_number, j.preempted, j.preempt_count, j.infra_failures,"
    " j.app_failures, j.avoid, j.preemptible, j.replaces_id AS replaces, j.depth, j.awaits,"
    " j.after_any, j.params, j.spec, m.max_running"
    " FROM scheduling_job j LEFT JOIN scheduling_queue q ON q.id = j.queue_id"
    " LEFT JOIN scheduling_level l ON l.id = j.level_id LEFT JOIN scheduling_project p ON p.id = j.project_id"
    " LEFT JOIN auth_user u ON u.id = j.user_id LEFT JOIN scheduling_jobset m ON m.id = j.member_of_id"
    " ORDER BY j.submitted_at, j.id",
    "predecessor": "SELECT job_id AS job, before_id AS before, named FROM scheduling_predecessor ORDER BY id",
    "attempt": "SELECT id, job_id AS job, number, epoch, granted_at, started_at, ended_at, remaining_s,"
    " resume_id AS resume, resume_step, outcome, log_bytes FROM scheduling_attempt ORDER BY granted_at, id",
    "part": "SELECT p.attempt_id AS attempt, n.name AS node, p.rank, p.claimed_at, p.ready_at, p.started_at"
    " FROM scheduling_attemptnode p JOIN scheduling_node n ON n.id = p.node_id ORDER BY p.id",
    "allocation": "SELECT a.attempt_id AS attempt, g.uuid AS gpu, a.granted_at, a.released_at, a.billing"
    " FROM scheduling_allocation a JOIN scheduling_gpu g ON g.id = a.gpu_id ORDER BY a.id",
    "gpu": "SELECT g.uuid, n.name AS node, g.nvlink_group_id AS nvlink_group, g.memory_mib, g.state"
    " FROM scheduling_gpu g JOIN scheduling_node n ON n.id = g.node_id ORDER BY g.uuid",
    "node": "SELECT n.name, n.state, v.last_heartbeat_at, v.leaving, v.disk_low"
    " FROM scheduling_node n LEFT JOIN scheduling_nodelive v ON v.node_id = n.id ORDER BY n.name",
    "artifact": "SELECT id, kind, files, published, corrupt, deleted_at, job_id AS job FROM scheduling_artifact"
    " ORDER BY id",
    "output": "SELECT job_id AS job, artifact_id AS artifact, attempt_id AS attempt FROM scheduling_joboutput"
    " ORDER BY id",
    "balance": "SELECT ledger, key, gpu_ms, settled_at FROM scheduling_balance ORDER BY id",
    "log": "SELECT attempt_id AS attempt, SUM(LENGTH(text)) AS size FROM scheduling_logchunk GROUP BY attempt_id",
    "window": "SELECT id, start, \"end\" FROM scheduling_window ORDER BY id",
    "nomination": "SELECT job_id AS job, gpus, deadline FROM scheduling_nomination ORDER BY id",
    "rule": "SELECT q.name AS queue, p.name AS level, w.name AS victim_queue, v.name AS victim_level"
    " FROM scheduling_preemptionrule r JOIN scheduling_level p ON p.id = r.preemptor_id"
    " JOIN scheduling_queue q ON q.id = p.queue_id JOIN scheduling_level v ON v.id = r.victim_id"
    " JOIN scheduling_queue w ON w.id = v.queue_id ORDER BY r.id",
    "scheduler": "SELECT holder, epoch, last_tick_at FROM scheduling_schedulerstate",
}  # fmt: skip
IDS = {"attempt", "job", "artifact", "resume", "replaces", "before", "named"}
INSTANTS = {"at", "start", "end", "deadline"}
DOCUMENTS = {"data", "affinity", "topology", "avoid", "files", "gpus", "params", "spec"}
TRUTHS = {
    "nvlink_required",
    "nvlink_exclusive",
    "preempted",
    "published",
    "corrupt",
    "leaving",
    "disk_low",
    "preemptible",
    "after_any",
}


def lines(cursor: Any, *, settled: bool, scale: float, now: float, log_limit: int = 4 * 1024 * 1024) -> Iterator[str]:
    """Every line of the export of the database that ``cursor`` reads, as it is at ``now``."""
    cursor.execute("SELECT half_life_s FROM scheduling_fairsharesettings")
    half_life = cursor.fetchone()
    house = {"table": "house", "scale": scale, "exported_at": now, "log_limit": log_limit, "settled": settled,
             "half_life_s": float(7 * 86400 if half_life is None else half_life[0])}  # fmt: skip
    yield json.dumps(house)
    for table, query in QUERIES.items():
        cursor.execute(query)
        names = [column[0] for column in cursor.description]
        for row in cursor.fetchall():
            values = {name: _plain(table, name, value) for name, value in zip(names, row, strict=True)}
            yield json.dumps({"table": table, **values})


def of_file(database: Path, **held: Any) -> list[str]:
    """The export of a house's SQLite file, read without disturbing whoever writes it."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        connection.execute("BEGIN")
        return list(lines(connection.cursor(), **held))


def _plain(table: str, name: str, value: Any) -> Any:
    """The value as JSON has it, whichever database it came from."""
    if value is None:
        return "" if (table, name) == ("event", "attempt") else None
    if name in INSTANTS or name.endswith("_at") or name == "not_before":
        return _instant(value)
    if (name in IDS or name == "id") and table != "window":
        return str(UUID(str(value)))
    if name in DOCUMENTS:
        return json.loads(value) if isinstance(value, str) else value
    return bool(value) if name in TRUTHS else value


def _instant(value: Any) -> float:
    at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
