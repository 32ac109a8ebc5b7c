"""What does the ``config.json`` of a stored model say?"""

from __future__ import annotations

import json
from typing import Any

from scheduling.services import artifact_files
from workers.rows_params import CONFIG, MAX_CONFIG


def config_of(files: list[dict[str, Any]]) -> Any:
    """The document, of whatever type; None where there is none among the artifact's ``files`` that can be read."""
    entry = next((f for f in files if f["path"] == CONFIG), None)
    if entry is None or entry["size"] > MAX_CONFIG:
        return None
    try:
        with artifact_files.open_blob(entry["sha256"]) as file:
            return json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return None
