"""A browser without scripts: signed in, looking at what the answer says."""

from __future__ import annotations

import re

from django.test import Client

from tests import builders as b


def browser(name: str = "alice") -> Client:
    """A client signed in as that person."""
    client = Client()
    assert client.login(username=name, password=b.PASSWORD)
    return client


def text(response) -> str:
    """The answer's body, whole."""
    content = b"".join(response.streaming_content) if response.streaming else response.content
    return content.decode()


def beside(html: str, field: str) -> str:
    """What the form says beside that field."""
    found = re.search(rf'<ul class="errors" id="e_{re.escape(field)}">(.*?)</ul>', html, re.S)
    return found.group(1) if found else ""


def form(models, **kw):
    """What the merge form posts when it is filled rightly."""
    filled = {
        "key": "11111111-1111-4111-8111-111111111111", "name": "slerp-a-b", "project": "alpha", "queue": "merge",
        "priority": "Normal", "gpu_count": "2", "nvlink_required": "on", "max_duration": "1h", "strategy": "slerp",
        "t": "0.5", "model": [*models, "", ""], "weight": ["", "", "", ""], "purpose": "", "retries": "",
        "out_dtype": "", "gpu_memory_min": "",
    }  # fmt: skip
    return {**filled, **kw}
