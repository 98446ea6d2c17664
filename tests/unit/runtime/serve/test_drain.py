"""A pod that is told to go loses nothing that it accepted; real processes, real signals."""

import asyncio
import contextlib

import pytest

from kvis_runtime.serve.drain import DrainTimes
from serving.codec import a_model_folder
from serving.process import a_server_process
from serving.running import a_server, an_engine, events_of, text_of

STREAMS = 20
LONG = {"ignore_eos": True, "stream": True}


@contextlib.asynccontextmanager
async def a_process(folder, *flags):
    model = a_model_folder(folder / "model")
    module = "serving.scripted_process"
    async with a_server_process(
        module, f"--model={model}", "--max-num-seqs=32", *flags, folder=folder
    ) as server:
        yield server


async def a_stream(server, **body):
    """Return the status and the events of a streamed completion."""
    response = await server.client.post("/v1/completions", json={"prompt": "Go", **LONG, **body})
    return response.status_code, events_of(response.text) if response.status_code == 200 else []


async def running(server, count):
    wanted = f'vllm:num_requests_running{{engine="0",model_name="model"}} {count}.0'
    async with asyncio.timeout(10):
        while True:
            if wanted in (await server.client.get("/metrics")).text:
                return
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_sigterm_during_20_streams_loses_none_and_exits_0(tmp_path):
    async with a_process(tmp_path, "--endpoint-propagation=0.5", "--shutdown-timeout=20") as server:
        streams = [asyncio.create_task(a_stream(server, max_tokens=100)) for _ in range(STREAMS)]
        await running(server, STREAMS)
        server.terminate()
        await asyncio.sleep(0.1)
        assert (await server.client.get("/ready")).status_code == 503
        late_status, late_events = await a_stream(server, max_tokens=5)
        answers = await asyncio.gather(*streams)
        assert await server.process.wait() == 0
    assert (late_status, late_events[-1]) == (200, "[DONE]")
    assert {status for status, _ in answers} == {200}
    assert {len(text_of(events)) for _, events in answers} == {100}
    assert all(events[-1] == "[DONE]" for _, events in answers)


@pytest.mark.slow
async def test_after_the_pause_new_requests_are_sent_elsewhere(tmp_path):
    async with a_process(tmp_path, "--endpoint-propagation=0", "--shutdown-timeout=20") as server:
        stream = asyncio.create_task(a_stream(server, max_tokens=60))
        await running(server, 1)
        server.terminate()
        await asyncio.sleep(0.2)
        refused = await server.client.post("/v1/completions", json={"prompt": "Go"})
        _, events = await stream
        assert await server.process.wait() == 0
    assert (refused.status_code, refused.headers["connection"]) == (503, "close")
    assert events[-1] == "[DONE]"


@pytest.mark.slow
async def test_what_does_not_finish_in_time_gets_an_explicit_error(tmp_path):
    async with a_process(tmp_path, "--endpoint-propagation=0", "--shutdown-timeout=0.5") as server:
        streams = [asyncio.create_task(a_stream(server, max_tokens=1000)) for _ in range(5)]
        whole = asyncio.create_task(a_stream(server, max_tokens=1000, stream=False))
        await running(server, 6)
        server.terminate()
        answers = await asyncio.gather(*streams)
        status, _ = await whole
        assert await server.process.wait() == 0
    assert {events[-1]["error"]["code"] for _, events in answers} == {"shutting_down"}
    assert all(text_of(events) for _, events in answers)
    assert status == 503


@pytest.mark.slow
async def test_a_second_sigterm_hastens(tmp_path):
    async with a_process(tmp_path, "--endpoint-propagation=30", "--shutdown-timeout=60") as server:
        stream = asyncio.create_task(a_stream(server, max_tokens=1000))
        await running(server, 1)
        server.terminate()
        await asyncio.sleep(0.2)
        server.terminate()
        async with asyncio.timeout(15):
            _, events = await stream
            assert await server.process.wait() == 0
    assert events[-1]["error"]["code"] == "shutting_down"


@pytest.mark.slow
async def test_an_idle_pod_still_waits_for_its_routers(tmp_path):
    async with a_process(tmp_path, "--endpoint-propagation=0.6", "--shutdown-timeout=5") as server:
        server.terminate()
        await asyncio.sleep(0.3)
        assert server.process.returncode is None
        assert (await a_stream(server, max_tokens=3))[0] == 200
        assert await server.process.wait() == 0


async def test_sigterm_while_loading_ends_at_once():
    stuck = an_engine()
    stuck.running_allowed.clear()
    async with a_server(stuck, wait=False, drain=DrainTimes(propagation=30, timeout=60)) as server:
        server.stop.set()
        async with asyncio.timeout(15):
            await server.ended


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_still_queued_at_the_deadline_can_be_retried(stream):
    times = DrainTimes(propagation=0, timeout=0.2)
    async with a_server(an_engine(step_seconds=0.002, max_num_seqs=1), drain=times) as server:
        first = asyncio.create_task(server.complete(max_tokens=1500, ignore_eos=True))
        await server.until(lambda stats: stats.running == 1)
        queued = asyncio.create_task(server.complete(stream=stream))
        await server.until(lambda stats: stats.waiting == 1)
        server.stop.set()
        assert (await queued).status_code == 503
        await first
