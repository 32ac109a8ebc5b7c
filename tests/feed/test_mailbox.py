"""The bounded box between the tailing thread and one socket."""

from __future__ import annotations

import asyncio

from scheduling.feed.tail import Batch, Mailbox


def batch(seq: int) -> Batch:
    return Batch(seq, ())


async def test_batches_come_out_in_order():
    box = Mailbox(asyncio.get_running_loop())
    box.offer(batch(1))
    box.offer(batch(2))
    assert [(await box.take(1)).seq for _ in range(2)] == [1, 2]


async def test_an_overfull_box_gives_everything_up_for_a_snapshot():
    box = Mailbox(asyncio.get_running_loop(), limit=2)
    for seq in (1, 2, 3):
        box.offer(batch(seq))
    assert await box.take(1) is None
    assert box.overflowed


async def test_an_empty_box_says_nothing_after_its_time():
    assert await Mailbox(asyncio.get_running_loop()).take(0.01) is None


async def test_a_batch_from_another_thread_wakes_the_reader():
    box = Mailbox(asyncio.get_running_loop())
    reader = asyncio.create_task(box.take(10))
    await asyncio.to_thread(box.put, batch(7))
    assert (await reader).seq == 7


def test_a_batch_for_a_loop_that_has_ended_is_no_error():
    loop = asyncio.new_event_loop()
    box = Mailbox(loop)
    loop.close()
    box.put(batch(1))
    assert loop.is_closed()
