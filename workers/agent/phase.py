"""Where does an attempt stand on its node, and what is that in a heartbeat?"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """Where it stands. ``READY``: it waits for its parts on other nodes; ``STARTING``: the keeper was told;
    ``FINISHED``: only its report is left to deliver."""

    CLAIMING = "claiming"
    PREPARING = "preparing"
    READY = "ready"
    STARTING = "starting"
    RUNNING = "running"
    PUBLISHING = "publishing"
    FINISHED = "finished"


ALIVE = (Phase.STARTING, Phase.RUNNING)
# What ends here when the server is out of reach for too long: others may be told that it runs, or to wait for it.
LEASED = (Phase.READY, *ALIVE)
# While it stands there its files may be on their way.
MOVING = (Phase.PREPARING, Phase.RUNNING, Phase.PUBLISHING)
WIRE = {
    Phase.PREPARING: "claimed",
    Phase.READY: "claimed",
    Phase.STARTING: "claimed",
    Phase.RUNNING: "running",
    Phase.PUBLISHING: "uploading",
    Phase.FINISHED: "finished",
}
