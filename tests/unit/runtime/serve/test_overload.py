"""More work than the pod can hold is refused at once; what was accepted is served."""

import asyncio
from collections import Counter

from serving.running import a_server, an_engine
from serving.waiting import eventually

LIMIT = 12


async def test_a_burst_is_served_up_to_the_limit_and_the_rest_told_when_to_return():
    engine = an_engine(max_num_seqs=4)
    async with a_server(engine, max_num_queued_reqs=LIMIT) as server:
        engine.running_allowed.clear()
        asking = [asyncio.create_task(server.complete()) for _ in range(100)]
        await eventually(lambda: sum(task.done() for task in asking) == 100 - LIMIT, seconds=20)
        engine.running_allowed.set()
        responses = await asyncio.gather(*asking)
        page = (await server.client.get("/metrics")).text
    counts = Counter(response.status_code for response in responses)
    assert counts == {200: LIMIT, 429: 100 - LIMIT}
    assert all(int(r.headers["retry-after"]) >= 1 for r in responses if r.status_code == 429)
    assert f'reason="max_num_queued_reqs"}} {100 - LIMIT}.0' in page


async def test_probes_answer_while_the_queue_is_full():
    engine = an_engine(step_seconds=0.002, max_num_seqs=1)
    async with a_server(engine, max_num_queued_reqs=2) as server:
        asking = [asyncio.create_task(server.complete(max_tokens=900, ignore_eos=True)) for _ in range(2)]
        await server.until(lambda stats: stats.waiting == 1)
        assert (await server.complete()).status_code == 429
        assert (await server.client.get("/ready")).status_code == 200
        for task in asking:
            task.cancel()


async def test_clients_that_go_away_all_at_once_leave_nothing_behind():
    engine = an_engine(step_seconds=0.002, max_num_seqs=32)
    async with a_server(engine) as server:
        for _ in range(2):
            asking = [
                asyncio.create_task(
                    server.complete(max_tokens=1500, ignore_eos=True, stream=bool(i % 2), n=1 + i % 2)
                )
                for i in range(60)
            ]
            await server.until(lambda stats: stats.waiting > 30, seconds=20)
            for task in asking:
                task.cancel()
            await server.until(
                lambda stats: stats.running == stats.waiting == stats.blocks_referenced == 0, seconds=20
            )
            assert server.runtime.engine.open_requests == 0
