"""The server with the bundled model behind it: one real process, its API, its limits, its drain."""

import asyncio
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client.parser import text_string_to_metric_families

from kvis_kv import series
from kvis_kv.flags import POD_UID_ENV
from serving.process import a_server_process
from serving.running import POD_UID, events_of, text_of
from serving.tokens import a_token, public_pem

pytestmark = [
    pytest.mark.model,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]

MODEL = Path(__file__).parents[4] / "build/models/smollm2-135m"
CONTEXT = 1024
FLAGS = (
    "serve",
    f"--model={MODEL}",
    f"--max-model-len={CONTEXT}",
    "--max-num-seqs=20",
    f"--kv-cache-memory-bytes={512 << 20}",
    "--endpoint-propagation=1",
    "--shutdown-timeout=300",
)
QUESTION = [{"role": "user", "content": "Name three colours and say a sentence about each of them, please."}]


def started(folder, *flags):
    return a_server_process(
        "kvis_runtime.cli.main",
        *FLAGS,
        *flags,
        folder=folder,
        start_seconds=180,
        **{POD_UID_ENV: POD_UID},
    )


@pytest.fixture(scope="module")
def key():
    return Ed25519PrivateKey.generate()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory, key):
    if not (MODEL / "config.json").is_file():
        pytest.skip(f"{MODEL} is missing: make model")
    folder = tmp_path_factory.mktemp("server")
    (folder / "public.pem").write_bytes(public_pem(key))
    async with started(folder, f"--admin-public-key={folder}/public.pem") as process:
        yield process


async def complete(server, **body):
    return await server.client.post(
        "/v1/completions", json={"prompt": "The capital of France is", "temperature": 0, **body}
    )


async def text(server, **body):
    return (await complete(server, **body)).json()["choices"][0]["text"]


async def chat(server, **body):
    return await server.client.post(
        "/v1/chat/completions", json={"messages": QUESTION, "max_tokens": 20, **body}
    )


async def gauge(server, name):
    page = (await server.client.get("/metrics")).text
    families = text_string_to_metric_families(page)
    [value] = [sample.value for family in families for sample in family.samples if sample.name == name]
    return value


async def reaches(server, name, wanted, seconds=60):
    async with asyncio.timeout(seconds):
        while True:
            if await gauge(server, name) == wanted:
                return
            await asyncio.sleep(0.05)


async def test_the_model_knows_a_capital(server):
    assert "Paris" in await text(server, max_tokens=8)


@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 0.8, "top_p": 0.9, "seed": 5}])
async def test_a_stream_gives_the_text_of_the_whole_answer(server, sampling):
    whole = (await chat(server, **sampling)).json()["choices"][0]["message"]["content"]
    assert text_of(events_of((await chat(server, stream=True, **sampling)).text)) == whole


async def test_the_same_seed_gives_the_same_text_and_another_one_another(server):
    sampling = {"temperature": 1.0, "max_tokens": 16}
    first, again, other = [await text(server, seed=seed, **sampling) for seed in (1, 1, 2)]
    assert first == again != other


async def test_a_stop_string_cuts_the_text_before_it(server):
    whole = await text(server, max_tokens=20)
    stop = whole[8:14]
    assert await text(server, max_tokens=20, stop=stop) == whole[: whole.index(stop)]


async def test_a_second_turn_finds_the_first_one_cached(server):
    first = (await chat(server)).json()
    answer = first["choices"][0]["message"]["content"]
    turns = [
        *QUESTION,
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "Thanks. More?"},
    ]
    usage = (await chat(server, messages=turns)).json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] >= first["usage"]["prompt_tokens"] // 16 * 16


async def test_a_prompt_longer_than_the_context_is_400_with_the_numbers(server):
    response = await complete(server, prompt="word " * (CONTEXT + 10))
    assert response.status_code == 400
    assert str(CONTEXT) in response.json()["error"]["message"]


async def test_a_body_of_two_mebibytes_is_413(server):
    response = await server.client.post("/v1/completions", content=b" " * (2 << 20))
    assert response.status_code == 413


async def test_clients_that_go_away_free_every_block(server):
    body = {"max_tokens": 900, "ignore_eos": True}
    asking = [asyncio.create_task(complete(server, stream=bool(i % 2), **body)) for i in range(6)]
    await reaches(server, series.REQUESTS_RUNNING, 6)
    for task in asking:
        task.cancel()
    await reaches(server, series.KV_CACHE_USAGE, 0)
    assert await gauge(server, series.REQUESTS_RUNNING) == 0


async def test_a_limit_changes_how_many_run(server, key):
    async def limit(count):
        headers = {"Authorization": f"Bearer {a_token(key)}"}
        url = f"http://127.0.0.1:{server.admin_port}/kvis/limits"
        async with httpx.AsyncClient(timeout=60) as client:
            return (await client.put(url, headers=headers, json={"maxNumActiveSeqs": count})).json()

    assert await limit(2) == {"maxNumActiveSeqs": 2, "maxNumSeqs": 20}
    asking = [asyncio.create_task(complete(server, max_tokens=900, ignore_eos=True)) for _ in range(5)]
    await reaches(server, series.REQUESTS_WAITING, 3)
    assert await gauge(server, series.REQUESTS_RUNNING) == 2
    await limit(20)
    await reaches(server, series.REQUESTS_RUNNING, 5)
    for task in asking:
        task.cancel()
    await reaches(server, series.REQUESTS_RUNNING, 0)


async def test_sigterm_during_20_streams_loses_none_and_exits_0(tmp_path, server):
    async with started(tmp_path) as leaving:
        body = {"max_tokens": 24, "ignore_eos": True, "stream": True}
        streams = [asyncio.create_task(complete(leaving, **body)) for _ in range(20)]
        await reaches(leaving, series.REQUESTS_RUNNING, 20)
        leaving.terminate()
        answers = [events_of(response.text) for response in await asyncio.gather(*streams)]
        assert await leaving.process.wait() == 0
    assert all(events[-1] == "[DONE]" for events in answers)
    assert {text_of(events) for events in answers} == {await text(server, max_tokens=24, ignore_eos=True)}
