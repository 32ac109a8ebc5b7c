"""Who submits, cancels and asks: people who try again with the same key until they have been told something."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from tests.chaos_processes.house import House
from tests.chaos_processes.load import Order
from tests.checker import truth

ENDED = ("SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "REJECTED")
AGAIN_S = 0.5
PATIENCE_S = 120.0


class Customers:
    """``ids`` are the jobs they were told of; ``wrong`` what was answered to them that never may be."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.ids: dict[str, str] = {}
        self.wrong: list[str] = []
        self._threads: list[threading.Thread] = []

    def submit(self, order: Order) -> None:
        """The job is acknowledged, however often it has to be asked for."""
        key = f"{self._house.name}-{order.name}"
        headers = {"Idempotency-Key": key}
        if order.after and order.after not in self.ids:
            self.wrong.append(f"{order.name} could not be submitted: there is no {order.after}")
            return
        body = order.body_after(self.ids.get(order.after, ""))
        answer = self._until_told(order.user, lambda c: c.post("/jobs/", json=body, headers=headers))
        if answer is None or answer.status_code not in (200, 201):
            self.wrong.append(f"{order.name} could not be submitted: {_words(answer)}")
            return
        self.ids[order.name] = answer.json()["id"]
        truth.acknowledged(self._house.truth, answer.json()["id"], user=order.user, key=key)

    def cancel(self, order: Order) -> None:
        """The job is cancelled, or had ended before."""
        path = f"/jobs/{self.ids[order.name]}/cancel/"
        answer = self._until_told(order.user, lambda c: c.post(path, json={}))
        if answer is None or answer.status_code not in (200, 202, 204, 409):
            self.wrong.append(f"{order.name} could not be cancelled: {_words(answer)}")

    def later(self, orders: Sequence[Order]) -> None:
        """Each of these is submitted and cancelled at its time, counted from now, whatever happens meanwhile."""
        for order in orders:
            if order.after_s >= 0 or order.cancel_s is not None:
                one = threading.Thread(target=self._live, args=(order,), daemon=True)
                self._threads.append(one)
                one.start()

    def come_back(self, patience_s: float = PATIENCE_S) -> None:
        """All of them have been told something."""
        for one in self._threads:
            one.join(patience_s)

    def _live(self, order: Order) -> None:
        begun = time.monotonic()
        if order.after_s >= 0:
            time.sleep(order.after_s)
            self.submit(order)
        if order.cancel_s is not None and order.name in self.ids:
            time.sleep(max(0.0, begun + order.cancel_s - time.monotonic()))
            self.cancel(order)

    def job(self, name: str) -> dict[str, Any]:
        """The job as it is now; ``{}`` while the server does not answer."""
        return self._asked(f"/jobs/{self.ids[name]}/")

    def states(self) -> dict[str, str]:
        """The state of each job by its name, in one question; ``{}`` while the server does not answer."""
        found = {job["id"]: job["state"] for job in self._asked("/jobs/?limit=100").get("results", ())}
        return {name: found[job] for name, job in self.ids.items() if job in found}

    def _asked(self, path: str) -> dict[str, Any]:
        try:
            with self._house.client("admin") as client:
                answer = client.get(path)
        except httpx.HTTPError:
            return {}
        return answer.json() if answer.status_code == 200 else {}

    def events(self, name: str) -> list[dict[str, Any]]:
        """What happened to the job, in words."""
        return list(self._asked(f"/jobs/{self.ids[name]}/events/").get("results", ()))

    def left(self, job: dict[str, Any], file: str) -> str:
        """The sha256 of the file of the job's one artifact, as it is downloaded; what is wrong, in words, else."""
        artifacts = job.get("artifacts") or []
        if len(artifacts) != 1:
            return f"{len(artifacts)} artifacts"
        with self._house.client("admin") as client:
            answer = client.get(f"/artifacts/{artifacts[0]['id']}/files/{file}")
        return hashlib.sha256(answer.content).hexdigest() if answer.status_code == 200 else _words(answer)

    def _until_told(self, user: str, ask: Callable[[httpx.Client], httpx.Response]) -> httpx.Response | None:
        """The first answer that is no word of the server's being away; None when there never is one."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                with self._house.client(user) as client:
                    answer = ask(client)
                if answer.status_code not in (429, 502, 503, 504):
                    return answer
            except httpx.HTTPError:
                pass
            time.sleep(AGAIN_S)
        return None


def _words(answer: httpx.Response | None) -> str:
    return "no answer" if answer is None else f"HTTP {answer.status_code} {answer.text[:300]}"
