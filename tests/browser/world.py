"""A small pool with work in every state, driven by services as an agent would, by the real clock."""

from __future__ import annotations

from django.contrib.auth import get_user_model

from scheduling.models import Delivery, Webhook
from scheduling.services import jobs, now, pool
from tests import builders as b


def pool_with_models(nodes=("node-1",)):
    """People, nodes in racks of their own, and two models of alpha; returns (alice, model ids)."""
    alice = b.people()["alice"]
    for i, name in enumerate(nodes):
        b.node(name, now=now(), rack=f"r{i + 1}")
        sampled(name)
    return alice, [b.model(alice, "digits-0-4", 1), b.model(alice, "digits-5-9", 2)]


def sampled(name: str, utilization: float = 1.0) -> None:
    """The node has sent a sample of each GPU."""
    samples = [{"uuid": f"GPU-{name}-{i}", "utilization": utilization, "memory_used_mib": 900, "temperature_c": 41.0,
                "power_w": 75.0} for i in range(4)]  # fmt: skip
    b.beat(name, now=now(), gpus=samples)


def started(name: str = "node-1") -> b.Running:
    """The scheduler has ticked, and the node runs what it was given last."""
    b.ticked(now())
    wanted = b.beat(name, now=now())["desired"][-1]
    launch = pool.claim(name, wanted["attempt"], wanted["epoch"], now())
    b.beat(
        name, now=now(), reports=[{"type": "started", "attempt": wanted["attempt"], "epoch": wanted["epoch"], "pid": 1}]
    )
    return b.Running(launch["job"], wanted["attempt"], wanted["epoch"], name, launch["gpus"])


def told(run: b.Running, kind: str, **what) -> None:
    """The run has reported something."""
    b.beat(run.node, now=now(), reports=[{"type": kind, "attempt": run.attempt, "epoch": run.epoch, **what}])


def searching(alice, model: str, search: str) -> b.Running:
    """A search of alice's runs: between this model and another of its shape, judged on this data set and a test."""
    other = b.mlp(alice, "net-2", 7, sizes=(4, 3))
    test = b.dataset(alice, "more tests", content=b"{}")
    params = {"test": {"dataset": test}, "objective": {"dataset": search, "metrics": ["accuracy"]}}
    b.submitted(alice, b.evolve_body([model, other], search, params=params), now=now())
    return started()


def generation(run: b.Running, number: int, best: float, mean: float) -> None:
    """The search has told of this generation."""
    told(run, "metric", name="best", step=number, value=best)
    told(run, "metric", name="mean", step=number, value=mean)
    told(run, "progress", step=4 * number + 1, total=40, unit="evaluation", rate=4.0)


def webhook(name: str):
    """A webhook of that person's, which took one message and did not take another; its id."""
    user = get_user_model().objects.get(username=name)
    made = Webhook.objects.create(user=user, name="ci", url="https://ci.example/" + "hook/" * 20, events=["failed"],
                                  created_at=now(), since=now(), failures=2)  # fmt: skip
    said = {"at": now().isoformat(), "ms": 12, "answer": "x" * 200}
    answers = [said | {"status": 500, "error": "it answered 500"}, said | {"status": 200, "error": ""}]
    for log, state in ((answers, "SENT"), (answers[:1], "FAILED")):
        Delivery.objects.create(user=user, webhook=made, state=state, events=3, created_at=now(), ended_at=now(),
                                log=log)  # fmt: skip
    return made.pk


def everything():
    """One job in each state worth a look; returns {what: address}."""
    alice, models = pool_with_models(("node-1", "node-2"))
    submitted = lambda name, **kw: b.submitted(alice, b.merge_body(models, name=name, **kw), now=now())  # noqa: E731
    submitted("done")
    done = started()
    told(done, "logs", offset=0, text="merged fc.weight\n")
    made = b.output(done, now=now())
    b.finished(done, artifacts=[made], now=now())
    model, data = b.mlp(alice, "net", sizes=(4, 3)), b.dataset(alice, "tests")
    b.submitted(alice, b.evaluate_body(model, data, name="judged"), now=now())
    judged = started()
    for name, value in (("accuracy", 0.8234), ("not_finite", 2.0)):
        told(judged, "metric", name=name, step=538, value=value)
    b.finished(judged, artifacts=[], now=now())
    b.submitted(alice, b.infer_body(model, data, name="inferred"), now=now())
    inferred = started()
    told(inferred, "progress", step=538, total=538, unit="row", rate=12_034.5)
    told(inferred, "metric", name="bad_rows", step=538, value=2.0)
    lines = b.output(inferred, name="inference", kind="output", content=b"{}", now=now())
    b.finished(inferred, artifacts=[lines], now=now())
    searched = searching(alice, model, data)
    for number, best in enumerate((0.81, 0.84, 0.86)):
        generation(searched, number, best, best - 0.1 / (number + 1))
    for name, value in (("search best", 0.86), ("test best", 0.85), ("search model-0", 0.5), ("test model-0", 0.51)):
        told(searched, "metric", name=name, step=40, value=value)
    b.finished(searched, artifacts=[], now=now())
    submitted("broken")
    broken = started()
    b.finished(broken, "FAILED", exit_code=1, error="CUDA error: device-side assert", now=now())
    submitted("long <b>name " + "x" * 80, gpu_count=4)
    running = started()
    told(running, "progress", step=3, total=9, unit="tensors", rate=0.5)
    told(running, "logs", offset=0, text="step 3\n")
    waiting = [submitted(f"waits-{i}", gpu_count=4) for i in range(3)]
    b.ticked(now())
    b.ticked(now())
    held = submitted("held")
    jobs.hold(held, alice, now())
    refused = jobs.submit({**b.merge_body(models), "gpu_count": 99, "name": "refused"}, alice, now())
    pages = {"done": done.job, "judged": judged.job, "inferred": inferred.job, "searched": searched.job,
             "broken": broken.job,
             "running": running.job, "waiting": waiting[-1], "held": held, "refused": refused.job_id}  # fmt: skip
    change = f"/jobs/new/?from={held}&replaces={held}"
    return {
        **{k: f"/jobs/{v}/" for k, v in pages.items()},
        "webhook": f"/account/webhooks/{webhook('admin')}/",
        "artifact": f"/artifacts/{made}/",
        "lineage": f"/artifacts/{made}/lineage/",
        "change": change,
    }
