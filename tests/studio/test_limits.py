import asyncio
import threading

import pytest
import torch

from regard.studio.limits import Deadline, Late, Limits, TooMuch, WorkQueue


def test_a_layer_stops_when_the_time_is_over_and_not_before() -> None:
    deadline, layer = Deadline(), torch.nn.Linear(2, 2)
    deadline.watch(layer)
    assert layer(torch.zeros(1, 2)).shape == (1, 2)  # outside of a piece of work nothing is checked
    with deadline.within(1000.0):
        layer(torch.zeros(1, 2))
    with deadline.within(-1.0), pytest.raises(Late):
        layer(torch.zeros(1, 2))
    with deadline.within(1000.0, lambda: True), pytest.raises(Late):
        layer(torch.zeros(1, 2))


def test_the_queue_says_its_length_and_refuses_what_is_too_much() -> None:
    queue, gate = WorkQueue(Limits(waiting=2), Deadline()), threading.Event()

    async def work() -> None:
        first = asyncio.create_task(queue.run(lambda: gate.wait(60)))
        second = asyncio.create_task(queue.run(lambda: "second"))
        await asyncio.sleep(0)
        with pytest.raises(TooMuch, match="the studio is busy: got 2 requests that wait"):
            await queue.run(lambda: None)
        gate.set()
        assert await first == (True, 0)
        assert await second == ("second", 1)
        assert queue.length == 0

    asyncio.run(work())
    queue.close()


def test_work_that_comes_first_is_done_before_what_is_asked_for() -> None:
    queue, done = WorkQueue(Limits(), Deadline()), []
    queue.first(lambda: done.append("first"))
    asyncio.run(queue.run(lambda: done.append("asked for")))
    queue.close()
    assert done == ["first", "asked for"]


def test_late_work_is_an_error_of_the_studio() -> None:
    deadline = Deadline()
    queue = WorkQueue(Limits(seconds=-1.0), deadline)
    with pytest.raises(TooMuch, match="this took too long"):
        asyncio.run(queue.run(deadline.check))
    queue.close()
