"""How often beat asks for each chore, in seconds."""

from __future__ import annotations

from typing import Any

SCHEDULE: dict[str, dict[str, Any]] = {
    "roll-up-usage": {"task": "scheduling.tasks.roll_up_usage", "schedule": 300},
    "look-at-gpus": {"task": "scheduling.tasks.look_at_gpus", "schedule": 60},
    "retain-events": {"task": "scheduling.tasks.retain_events", "schedule": 3600},
    "verify-artifacts": {"task": "scheduling.tasks.verify_artifacts", "schedule": 60},
    "collect-uploads": {"task": "scheduling.tasks.collect_uploads", "schedule": 3600},
    "collect-artifacts": {"task": "scheduling.tasks.collect_artifacts", "schedule": 3600},
    "send-notices": {"task": "scheduling.tasks.send_notices", "schedule": 5, "options": {"expires": 5}},
    "retain-notices": {"task": "scheduling.tasks.retain_notices", "schedule": 3600},
    "look-after-what-ifs": {"task": "scheduling.tasks.look_after_what_ifs", "schedule": 30, "options": {"expires": 30}},
}
