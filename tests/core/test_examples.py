"""The 26 worked examples of the design, each by its number. Two reservations a level, a grace of a minute."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.decay import decay, interval
from scheduling.core.decide import decide
from scheduling.core.fairshare import score_of
from scheduling.core.plan import Plan
from scheduling.core.pool import Pool
from scheduling.core.snapshot import LiveAttempt, WaitingJob

from .build import (
    HOUR_MS,
    HOUR_S,
    gang,
    gpus,
    groups,
    job,
    live,
    loose,
    node,
    nominated,
    numbers_of,
    order_of,
    patient,
    places_of,
    pool,
    promised,
    used,
    victims,
    weighted,
    world,
)
from .submitting import accepted, the_error
from .unfolding import World

WEEK_MS = 7 * 86_400_000


def planned(the_pool: Pool, *jobs: WaitingJob, at: float = 10, **more) -> Plan:
    """The plan at second ``at`` under the policy of the examples."""
    policy = patient(more.pop("policy", patient()))
    return decide(world(the_pool, *jobs, now_ms=round(at * 1000), policy=policy, **more))


def two_projects(*, hours_of_a: int = 1, count: int = 8) -> list[WaitingJob]:
    """Jobs 0, 1, ... of A and 10, 11, ... of B, each submitted at the second of its name."""
    of_a = [job(f"{n}", at=n, seconds=hours_of_a * HOUR_S) for n in range(count)]
    return of_a + [job(f"{10 + n}", at=10 + n, project="B") for n in range(count)]


@pytest.mark.parametrize(
    ("priority", "consumed", "score"),
    [(2, 0, 4.0), (2, 50, 3.0), (2, 100, 2.0), (2, 200, 0.0), (2, 300, -2.0), (4, 300, -4.0), (1, 300, -1.0)],
)
def test_example_1_formula(priority, consumed, score):
    assert score_of(priority, target=100, consumed=consumed) == score


def test_example_2_level_before_score():
    jobs = [job("J1", at=9, level="High"), job("J2", at=1, project="B")]
    plan = planned(loose(1), *jobs, usage=used(project={"A": 500}, at_ms=0))
    assert order_of(plan) == ["J1"]
    assert [plan.scores[name].project.score for name in ("J1", "J2")] == pytest.approx([-6.3775, 4.0], abs=1e-4)


def test_example_3_targets():
    jobs = [
        job("1", queue="merge", user="a"),
        job("2", queue="eval", user="b"),
        job("3", queue="inference", project="B"),
    ]
    scores = planned(loose(16), *jobs, policy=weighted(A=3.0, B=1.0)).scores
    targets = [scores[name].queue.target_gpu_h for name in "123"]
    targets += [scores[name].project.target_gpu_h for name in "13"]
    targets += [scores[name].user.target_gpu_h for name in "12"]
    expected = [1292.655, 646.327, 1938.982, 2908.473, 969.491, 1454.237, 1454.237]
    assert targets == pytest.approx(expected, abs=1e-3)


def test_example_4_decay():
    running = 2 * interval(1.0, 0, WEEK_MS, WEEK_MS, half_life_ms=WEEK_MS) / HOUR_MS
    assert decay(64.0, WEEK_MS, WEEK_MS) == 32.0
    assert decay(64.0, WEEK_MS, WEEK_MS) + running == pytest.approx(274.373, abs=1e-3)


def test_example_5_zero_weight():
    jobs = [job("Z", at=0, project="Z"), job("B5", at=5, project="B"), job("B6", at=6, project="B")]
    plan = planned(loose(2), *jobs, policy=weighted(Z=0.0))
    assert order_of(plan) == ["B5", "B6"]
    assert plan.scores["Z"].project.score is None
    assert order_of(planned(loose(3), *jobs, policy=weighted(Z=0.0))) == ["B5", "B6", "Z"]


def test_example_6_in_cycle_charging():
    assert order_of(planned(loose(4), *two_projects(), at=20)) == ["0", "10", "1", "11"]
    assert order_of(planned(loose(4), *two_projects(hours_of_a=2), at=20)) == ["0", "10", "11", "1"]
    off = replace(patient(), in_flight="off")
    assert order_of(planned(loose(4), *two_projects(), at=20, policy=off)) == ["0", "1", "2", "3"]


def test_example_7_weights_three_to_one():
    plan = planned(loose(8), *two_projects(), at=20, policy=weighted(A=3.0, B=1.0))
    assert order_of(plan) == ["0", "10", "1", "2", "3", "11", "4", "5"]
    deficits = [plan.scores[name].project.deficit for name in ("6", "12")]
    assert deficits == pytest.approx([1 - 0.004125876] * 2, abs=1e-9)


def test_example_8_queues_two_one_three():
    jobs = [
        job(f"{100 * place + n}", at=100 * place + n, queue=queue)
        for place, queue in enumerate(("merge", "eval", "inference"))
        for n in range(6)
    ]
    assert order_of(planned(loose(6), *jobs, at=300)) == ["0", "100", "200", "201", "1", "202"]


def test_example_9_project_ledger_spans_queues():
    jobs = [job("A", at=1, queue="eval"), job("B", at=2, queue="eval", project="B")]
    past = used(queue={"inference": 50}, project={"A": 50})
    plan = planned(loose(2), *jobs, usage=past, running=[live("z", "n0/0", project="Z")])
    assert order_of(plan) == ["B"]
    assert plan.scores["A"].project.target_gpu_h == pytest.approx(161.582, abs=1e-3)
    assert [plan.scores[name].project.score for name in "AB"] == pytest.approx([3.3811, 4.0], abs=1e-4)


def test_example_10_memory_best_fit():
    the_pool = pool(gpus("c", 1, memory="24GB"), gpus("b", 1, memory="40GB"), gpus("a", 1, memory="80GB"))
    jobs = [job("1", at=1, memory="30GB"), job("2", at=2, memory="10GB"), job("3", at=3, memory="10GB")]
    assert places_of(planned(the_pool, *jobs)) == {"1": ["b/0"], "2": ["c/0"], "3": ["a/0"]}


def test_example_11_keep_groups_whole():
    jobs = [job("1", at=1), job("2", 2, at=2, nvlink=True), job("3", 4, at=3, nvlink=True)]
    plan = planned(groups(2, 4), *jobs, running=[live("r", "n0/0")])
    assert places_of(plan) == {"1": ["n0/1"], "2": ["n0/2", "n0/3"], "3": ["n1/0", "n1/1", "n1/2", "n1/3"]}


@pytest.mark.parametrize(("prefer", "where"), [("whole_groups", "n1/1"), ("smallest_memory", "n0/0")])
def test_example_11_keep_groups_whole_or_take_the_smallest_memory(prefer, where):
    the_pool = pool(gpus("n0", 2, memory="24GB", group="g0"), gpus("n1", 4, memory="80GB", group="g1"))
    plan = planned(
        the_pool, job("1", memory="16GB"), running=[live("r", "n1/0")], policy=replace(patient(), prefer=prefer)
    )
    assert places_of(plan) == {"1": [where]}


def example_12() -> Plan:
    """Two groups of four; two GPUs of g0 are busy until 6000 s, two of g1 until 9000 s."""
    running = [live("r", "n0/0", "n0/1", ends=6000), live("s", "n1/0", "n1/1", ends=9000)]
    return planned(groups(2, 4), job("1", 4, nvlink=True), running=running)


def test_example_12_nvlink_fragmentation():
    plan = example_12()
    numbers = numbers_of(plan, "1", "FRAGMENTED")
    assert [numbers[key] for key in ("need", "free", "best_free", "short", "gpus_at_most")] == [4, 4, 2, 2, 2]
    assert (numbers["earliest_domain"], numbers["earliest_at_ms"]) == ("g0", 6_000_000)
    assert promised(plan) == {"1": (6000, ["n0/0", "n0/1", "n0/2", "n0/3"])}


def test_example_12_nvlink_rejection():
    error = the_error(gpu_count=8, nvlink_required=True, the_pool=groups(2, 4))
    assert (error.code, error.limit) == ("no_nvlink_group", 4)


def test_example_13_gang_racks():
    one = pool(*(gpus(f"n{n}", 4) for n in range(3)), nodes=[node("n0"), node("n1", rack="r1"), node("n2", rack="r1")])
    assert planned(one, gang("1", 2, 4)).starts[0].nodes == ("n1", "n2")


def test_example_13_gang_racks_the_last_rack_is_the_smallest_that_suffices():
    racks = ["r0", "r1", "r1", "r2", "r2", "r2"]
    nodes = [node(f"n{place}", rack=rack) for place, rack in enumerate(racks)]
    the_pool = pool(*(gpus(f"n{n}", 4) for n in range(6)), nodes=nodes)
    assert planned(the_pool, gang("1", 4, 4)).starts[0].nodes == ("n3", "n4", "n5", "n0")


def test_example_13_gang_racks_of_more_bandwidth_first():
    speeds = [("r0", 100.0), ("r0", 100.0), ("r1", 400.0), ("r1", 400.0)]
    nodes = [node(f"n{place}", rack=rack, gbps=gbps) for place, (rack, gbps) in enumerate(speeds)]
    the_pool = pool(*(gpus(f"n{n}", 4) for n in range(4)), nodes=nodes)
    plan = planned(the_pool, gang("1", 2, 4, at=1), job("2", at=2))
    assert [start.nodes for start in plan.starts] == [("n2", "n3"), ("n0",)]
    assert places_of(plan)["2"] == ["n0/0"]


def running_for(name: str, seconds: int, *held: str, at: float = 20_000, **more) -> LiveAttempt:
    """An attempt that started so many seconds before second ``at`` and has an hour left."""
    more = {"level": "Low", "ends": at + HOUR_S, **more}
    return live(name, *held, granted_ms=round((at - seconds) * 1000), now_ms=round(at * 1000), **more)


def boards(*places: str) -> list[str]:
    """n0/4-7 means the GPUs n0/4 to n0/7."""
    found = []
    for place in places:
        name, span = place.split("/")
        first, last = span.split("-")
        found += [f"{name}/{index}" for index in range(int(first), int(last) + 1)]
    return found


def critical(count: int = 1, **more) -> WaitingJob:
    """A Critical job submitted at 20,000 s."""
    return job("critical", count, at=20_000, level="Critical", **more)


def test_example_14_victims_lowest_level_first():
    running = [
        running_for("1", 600, *boards("n0/0-3"), level="Normal"),
        running_for("2", 3600, *boards("n0/4-5")),
        running_for("3", 1800, *boards("n0/6-7")),
    ]
    plan = planned(groups(1, 8), critical(4, nvlink=True), running=running, at=20_000)
    assert (victims(plan), nominated(plan)) == (["2", "3"], {"critical": boards("n0/4-7")})


def test_example_14_victims_then_the_least_lost_work():
    running = [
        running_for("g0", 6000, *boards("n0/0-7")),
        running_for("g1a", 600, *boards("n1/0-3")),
        running_for("g1b", 600, *boards("n1/4-7")),
    ]
    plan = planned(groups(2, 8), critical(8, nvlink=True), running=running, at=20_000)
    assert victims(plan) == ["g1a", "g1b"]


def test_example_15_no_useless_eviction():
    running = [
        attempt
        for place, ends in (("n0", 31_000), ("n1", 41_000))
        for attempt in (
            running_for(f"{place} high", 9000, f"{place}/0", level="High", ends=ends),
            running_for(f"{place} low", 9000, *boards(f"{place}/1-7"), ends=91_000),
        )
    ]
    plan = planned(groups(2, 8), critical(8, nvlink=True), running=running, at=20_000)
    assert (victims(plan), promised(plan)) == ([], {"critical": (31_000, boards("n0/0-7"))})


def test_example_16_gang_victim_counted_once():
    running = [running_for("1", 900, *boards("n0/0-3", "n1/0-3")), running_for("2", 300, *boards("n2/0-3"))]
    two_nodes = gang("critical", 2, 4, at=20_000, level="Critical")
    assert victims(planned(groups(3, 4), two_nodes, running=running, at=20_000)) == ["1"]
    assert victims(planned(groups(3, 4), critical(4, nvlink=True), running=running, at=20_000)) == ["2"]


def example_17() -> list[WaitingJob]:
    seconds = {"J1": (4, 7200), "J2": (1, 3600), "J3": (1, 7200), "J4": (1, 6000), "J5": (4, 600)}
    return [
        job(name, count, at=-5 + place, seconds=long) for place, (name, (count, long)) in enumerate(seconds.items())
    ]


def test_example_17_backfill():
    plan = planned(groups(1, 4), *example_17(), running=[live("r", "n0/0", "n0/1", ends=6000)], at=0)
    assert places_of(plan) == {"J2": ["n0/2"], "J4": ["n0/3"]}
    assert promised(plan) == {"J1": (6000, boards("n0/0-3")), "J5": (13_200, boards("n0/0-3"))}


def test_example_17_backfill_says_what_it_is_reserved_for():
    plan = planned(groups(1, 4), *example_17()[:3], running=[live("r", "n0/0", "n0/1", ends=6000)], at=0)
    assert numbers_of(plan, "J3", "RESERVED")["fits_if_at_most_s"] == 6000


def test_example_18_gang_reservation_and_rank():
    nodes = [node("n0"), node("n1"), node("n2", rack="r1")]
    the_pool = pool(*(gpus(f"n{n}", 2) for n in range(3)), nodes=nodes)
    running = [live("r", "n0/0", "n0/1", ends=3000), live("s", "n1/0", "n1/1", ends=6000)]
    jobs = [
        gang("J1", 2, 2, at=1, seconds=3600),
        gang("J2", 2, 2, at=2, seconds=3600),
        job("J3", 2, at=3, seconds=2900),
        job("J4", 2, at=4, seconds=3100),
    ]
    plan = planned(the_pool, *jobs, running=running)
    assert promised(plan) == {"J1": (3000, boards("n0/0-1", "n2/0-1")), "J2": (6600, boards("n0/0-1", "n1/0-1"))}
    assert places_of(plan) == {"J3": ["n2/0", "n2/1"]}


@pytest.mark.parametrize(
    ("queue", "level", "second", "stopped"),
    [
        ("inference", "Realtime", "inference", ["2"]),
        ("inference", "Realtime", "merge", []),
        ("eval", "High", "merge", []),
        ("merge", "Critical", "merge", ["1"]),
    ],
)
def test_example_19_realtime_and_eval(queue, level, second, stopped):
    running = [running_for("1", 900, "n0/0"), running_for("2", 900, "n0/1", level="Normal", queue=second)]
    plan = planned(loose(2), job("new", at=20_000, queue=queue, level=level), running=running, at=20_000)
    assert victims(plan) == stopped


def moving(the_pool: Pool, *running: LiveAttempt) -> World:
    return World(the_pool, patient(), live=running)


def step(the_world: World, at: float) -> Plan:
    """One cycle at second ``at``, carried out."""
    plan = decide(the_world.snapshot(round(at * 1000)))
    the_world.carry_out(plan)
    return plan


def evicted(the_world: World, name: str, original: WaitingJob) -> World:
    """So that a job that ran from the beginning can wait again."""
    the_world.origin[name] = original
    return the_world


def test_example_20_nominated_gpus_are_not_backfilled():
    low = running_for("low", 900, *boards("n0/0-2"))
    there = evicted(moving(groups(1, 4), low), "low", job("low", 3, at=19_000, level="Low", project="Z"))
    there.submit(critical(4, nvlink=True))
    plan = step(there, 20_000)
    assert (victims(plan), plan.nominations[0].gpus) == (["low"], ("n0/3", "n0/0", "n0/1", "n0/2"))
    there.submit(job("second", at=20_001, seconds=1))
    assert order_of(step(there, 20_001)) == []
    there.ended("low", 20_020_000)
    assert places_of(step(there, 20_020))["critical"] == boards("n0/0-3")


def test_example_21_surplus_of_a_victim():
    low = running_for("low", 900, *boards("n0/0-3"))
    there = evicted(moving(groups(1, 4), low), "low", job("low", 4, at=19_000, level="Low", project="Z"))
    there.submit(critical(), job("pair", 2, at=20_000, nvlink=True))
    plan = step(there, 20_000)
    assert (victims(plan), nominated(plan)) == (["low"], {"critical": ["n0/0"]})
    there.ended("low", 20_030_000)
    assert places_of(step(there, 20_030)) == {"critical": ["n0/0"], "pair": ["n0/1", "n0/2"]}


def test_example_22_requeue_keeps_the_place():
    first, second = job("1", at=999, seconds=50_000), job("2", at=1500, seconds=50_000)
    running = running_for("1", 19_000, "n0/0", level="Normal", project="A", ends=51_000)
    there = evicted(moving(loose(1), running), "1", first)
    there.submit(second, critical())
    assert victims(step(there, 20_000)) == ["1"]
    there.ended("1", 20_030_000)
    assert order_of(step(there, 20_030)) == ["critical"]
    there.ended("critical", 20_090_000)
    assert order_of(step(there, 20_090)) == ["1"]


def test_example_23_counterfactual():
    the_pool = pool(gpus("n0", 2, memory="80GB", group="g0"), gpus("n1", 2, memory="24GB", group="g1"))
    waiting = job("1", 2, at=1000, nvlink=True, memory="40GB")
    plan = planned(the_pool, waiting, running=[live("r", "n0/0", "n0/1", ends=9000)], at=1000)
    numbers = numbers_of(plan, "1", "BUSY")
    assert (numbers["short"], numbers["memory_at_most_mib"]) == (2, 22_889)
    assert (numbers["earliest_domain"], numbers["earliest_at_ms"]) == ("g0", 9_000_000)


def test_example_24_critical_against_realtime():
    jobs = [job("critical", at=5, level="Critical"), job("realtime", at=6, level="Realtime", queue="inference")]
    plan = planned(loose(1), *jobs, usage=used(queue={"merge": 1}, at_ms=HOUR_MS), at=3600)
    assert order_of(plan) == ["realtime"]


@pytest.mark.parametrize(("left", "stopped"), [(40, []), (60, []), (61, ["normal"])])
def test_example_25_wait_instead_of_evict(left, stopped):
    running = [running_for("normal", 900, "n0/0", level="Normal", ends=20_000 + left)]
    assert victims(planned(loose(1), critical(), running=running, at=20_000)) == stopped


def test_example_26_memory_units():
    board = pool([replace(gpu, memory_mib=81_559) for gpu in gpus("n0", 1)])
    assert accepted(gpu_count=1, gpu_memory_min="80GB", the_pool=board).request.gpu_memory_min_mib == 76_294
    error = the_error(gpu_count=1, gpu_memory_min="80GiB", the_pool=board)
    assert (error.code, error.limit) == ("no_such_memory", "81559MiB")
