"""The engine's thread: every call ends, results come, commands run between steps, a crash is told."""

import contextlib
import time

import pytest

from kvis_runtime.engine.request import Request, SamplingParams
from kvis_runtime.serve.engine_thread import EngineThread
from kvis_runtime.serve.errors import ApiError, unavailable
from serving.codec import a_codec
from serving.running import an_engine
from serving.waiting import eventually

CODEC = a_codec()


def a_request(request_id="a", max_tokens=5, prompt="Hi"):
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    return Request(request_id, tuple(CODEC.encode_text(prompt)), params)


@contextlib.asynccontextmanager
async def running(engine=None, **settings):
    backend = engine or an_engine()
    thread = EngineThread(lambda: backend, **settings)
    await thread.start()
    try:
        yield thread
    finally:
        thread.stop(timeout=2)


async def outputs_of(ticket, ends=1):
    outputs = []
    while sum(output.finished_reason is not None for output in outputs) < ends:
        outputs += [arrival.output for arrival in await ticket.take()]
    return outputs


async def test_a_request_yields_its_tokens_and_a_reason():
    async with running() as thread:
        outputs = await outputs_of(thread.submit([a_request()]))
    assert [output.finished_reason for output in outputs] == [None] * 4 + ["length"]
    assert CODEC.decode([token for output in outputs for token in output.new_token_ids]) == "Hello"


async def test_one_ticket_carries_several_requests():
    async with running() as thread:
        outputs = await outputs_of(thread.submit([a_request("a"), a_request("b")]), ends=2)
    assert {output.request_id for output in outputs} == {"a", "b"}


async def test_releasing_a_ticket_aborts_what_still_runs():
    engine = an_engine(step_seconds=0.001)
    async with running(engine) as thread:
        ticket = thread.submit([a_request("a", max_tokens=100_000)])
        await ticket.take()
        thread.release(ticket)
        await eventually(lambda: thread.snapshot.stats.blocks_referenced == 0)
        assert engine.aborted == ["a"]
        assert thread.open_requests == 0


async def test_releasing_a_finished_ticket_aborts_nothing():
    engine = an_engine()
    async with running(engine) as thread:
        ticket = thread.submit([a_request()])
        await outputs_of(ticket)
        thread.release(ticket)
    assert engine.aborted == []


async def test_a_request_the_engine_refuses_is_the_callers_fault():
    async with running() as thread:
        ticket = thread.submit([a_request(prompt="x" * 5000)])
        with pytest.raises(ApiError) as refusal:
            await ticket.take()
    assert (refusal.value.status, refusal.value.param) == (400, "prompt")


async def test_a_crash_ends_every_open_call_and_refuses_later_ones():
    async with running(an_engine(fails_at_step=2)) as thread:
        tickets = [thread.submit([a_request(name)]) for name in "abc"]
        for ticket in tickets:
            with pytest.raises(ApiError, match="engine failed") as error:
                await outputs_of(ticket)
            assert error.value.status == 503
        await thread.died.wait()
        with pytest.raises(ApiError):
            thread.submit([a_request("d")])
        with pytest.raises(ApiError):
            await thread.call(lambda engine: engine.stats())
        assert isinstance(thread.failure, RuntimeError)


async def test_a_crash_ends_a_waiting_command():
    async with running(an_engine()) as thread:
        with pytest.raises(ApiError):
            await thread.call(lambda engine: engine.no_such_call())


async def test_what_loading_raises_is_raised_by_start():
    def load():
        raise ValueError("no such model")

    with pytest.raises(ValueError, match="no such model"):
        await EngineThread(load).start()


async def test_a_command_runs_between_steps_and_returns_its_result():
    async with running(an_engine(step_seconds=0.001)) as thread:
        ticket = thread.submit([a_request(max_tokens=100_000)])
        await ticket.take()
        assert await thread.call(lambda engine: engine.set_cap(3)) == 3
        assert thread.snapshot.stats.cap == 3
        thread.release(ticket)


async def test_closing_ends_open_and_later_calls():
    async with running(an_engine(step_seconds=0.001)) as thread:
        ticket = thread.submit([a_request(max_tokens=100_000)])
        await ticket.take()
        thread.close(unavailable("going", code="shutting_down"))
        with pytest.raises(ApiError, match="going"):
            await outputs_of(ticket)
        with pytest.raises(ApiError, match="going"):
            thread.submit([a_request("b")])


async def test_a_stuck_engine_shows_as_stalled_and_an_idle_one_does_not():
    engine = an_engine()
    async with running(engine) as thread:
        assert thread.stalled_seconds() == 0
        engine.running_allowed.clear()
        ticket = thread.submit([a_request()])
        await eventually(lambda: thread.stalled_seconds() > 0.02)
        engine.running_allowed.set()
        await outputs_of(ticket)
        await eventually(lambda: thread.stalled_seconds() == 0)


async def test_a_slow_reader_finds_everything_in_one_take():
    async with running() as thread:
        ticket = thread.submit([a_request(max_tokens=50)])
        await eventually(lambda: thread.open_requests == 0)
        assert len(await ticket.take()) == 50


async def test_computed_tokens_of_each_step_are_reported():
    counted = []
    async with running(on_step_tokens=counted.append) as thread:
        await outputs_of(thread.submit([a_request(max_tokens=3)]))
    assert sum(counted) == len("Hi") + 3


async def test_busy_time_is_the_time_in_steps():
    async with running(an_engine(step_seconds=0.01)) as thread:
        started = time.monotonic()
        await outputs_of(thread.submit([a_request(max_tokens=5)]))
        await eventually(lambda: thread.snapshot.busy_seconds >= 0.05)
        assert thread.snapshot.busy_seconds <= time.monotonic() - started
