"""What the gate lets through, refuses, bounds and counts; no model behind it."""

import asyncio
import contextlib

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from kvis_runtime.serve.gate import MAX_BODY_BYTES, Backlog, Gate, Policy
from kvis_runtime.serve.lifecycle import Lifecycle, Phase
from serving.waiting import eventually

POLICY = Policy(
    methods={"/work": frozenset({"POST"}), "/look": frozenset({"GET"})}, generation=frozenset({"/work"})
)
ROOM = Backlog(open=0, limit=4, running_limit=2)


async def size_of_body(scope, receive, send):
    body = await Request(scope, receive).body()
    await PlainTextResponse(str(len(body)))(scope, receive, send)


def a_gate(app=size_of_body, phase=Phase.READY, backlog=ROOM, **settings):
    lifecycle = Lifecycle()
    lifecycle.advance(phase)
    return Gate(app, POLICY, lifecycle, lambda: backlog, **settings)


def a_client(gate):
    return httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url="http://pod")


async def ask(gate, method, path, **request):
    async with a_client(gate) as client:
        return await client.request(method, path, **request)


async def test_a_path_off_the_list_is_404_with_an_openai_error():
    response = await ask(a_gate(), "GET", "/tokenize")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "unknown_path"


async def test_another_method_is_405_and_names_the_right_one():
    response = await ask(a_gate(), "DELETE", "/work")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


async def test_a_body_at_the_limit_passes():
    response = await ask(a_gate(), "POST", "/work", content=b"x" * MAX_BODY_BYTES)
    assert response.text == str(MAX_BODY_BYTES)


async def test_a_larger_body_is_413():
    response = await ask(a_gate(), "POST", "/work", content=b"x" * (MAX_BODY_BYTES + 1))
    assert (response.status_code, response.headers["connection"]) == (413, "close")


async def test_a_body_without_declared_length_is_bounded_too():
    async def pieces():
        for _ in range(3):
            yield b"x" * (MAX_BODY_BYTES // 2)

    assert (await ask(a_gate(), "POST", "/work", content=pieces())).status_code == 413


async def test_headers_are_bounded():
    assert (await ask(a_gate(), "POST", "/work", headers={"x-long": "x" * 20_000})).status_code == 431


@pytest.mark.parametrize(
    ("phase", "code"),
    [(Phase.LOADING, "loading"), (Phase.REFUSING, "shutting_down"), (Phase.FAILED, "engine_failed")],
)
async def test_a_pod_that_cannot_serve_answers_503_and_closes(phase, code):
    response = await ask(a_gate(phase=phase), "POST", "/work")
    assert (response.status_code, response.headers["connection"]) == (503, "close")
    assert response.json()["error"]["code"] == code


async def test_a_leaving_pod_still_serves_but_asks_to_reconnect():
    response = await ask(a_gate(phase=Phase.LEAVING), "POST", "/work")
    assert (response.status_code, response.headers["connection"]) == (200, "close")


async def test_probes_pass_in_every_phase():
    assert (await ask(a_gate(phase=Phase.REFUSING), "GET", "/look")).status_code == 200


async def test_a_full_queue_is_429_with_the_time_to_come_back():
    rejected = []
    full = a_gate(backlog=Backlog(open=4, limit=4, running_limit=2), on_rejected=lambda: rejected.append(1))
    response = await ask(full, "POST", "/work")
    assert response.status_code == 429
    assert 3 <= int(response.headers["retry-after"]) <= 4
    assert rejected == [1]


async def test_requests_that_have_not_reached_the_engine_count_too():
    release = asyncio.Event()

    async def slow(scope, receive, send):
        await release.wait()
        await PlainTextResponse("done")(scope, receive, send)

    gate = a_gate(slow)
    async with a_client(gate) as client:
        inside = [asyncio.create_task(client.post("/work")) for _ in range(4)]
        await eventually(lambda: gate.in_flight == 4)
        assert (await client.post("/work")).status_code == 429
        release.set()
        assert [response.status_code for response in await asyncio.gather(*inside)] == [200] * 4
    assert gate.in_flight == 0


async def test_the_wait_for_an_empty_house_ends_with_the_last_answer():
    release = asyncio.Event()

    async def slow(scope, receive, send):
        await release.wait()
        await PlainTextResponse("done")(scope, receive, send)

    gate = a_gate(slow)
    asking = asyncio.create_task(ask(gate, "POST", "/work"))
    await eventually(lambda: gate.in_flight == 1)
    empty = asyncio.create_task(gate.wait_until_empty())
    await asyncio.sleep(0.01)
    assert not empty.done()
    release.set()
    await asyncio.gather(empty, asking)


async def test_a_bug_behind_the_gate_is_a_500_in_openai_shape():
    async def broken(scope, receive, send):
        raise KeyError("secret")

    response = await ask(a_gate(broken), "POST", "/work")
    assert response.status_code == 500
    assert "secret" not in response.text


async def test_a_cancelled_request_leaves_the_house():
    async def forever(scope, receive, send):
        await asyncio.Event().wait()

    gate = a_gate(forever)
    asking = asyncio.create_task(ask(gate, "POST", "/work"))
    await eventually(lambda: gate.in_flight == 1)
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking
    assert gate.in_flight == 0
