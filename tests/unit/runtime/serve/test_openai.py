"""The two endpoints as a client sees them, whole and streamed, over a real connection."""

import asyncio

import httpx
import pytest

from kvis_runtime.serve.scripted_engine import MAX_MODEL_LEN, ScriptedEngine
from serving.codec import a_codec
from serving.running import MODEL_NAME, a_server, an_api, an_engine, events_of, text_of

LONG = {"ignore_eos": True, "max_tokens": 1500}


async def test_a_completion_has_openais_shape():
    async with an_api() as server:
        body = (await server.complete(model=MODEL_NAME, max_tokens=5)).json()
    assert body["object"] == "text_completion"
    assert body["choices"] == [{"index": 0, "text": "Hello", "logprobs": None, "finish_reason": "length"}]
    assert body["usage"] == {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


async def test_a_chat_answer_has_openais_shape():
    async with an_api() as server:
        body = (await server.chat()).json()
    assert body["object"] == "chat.completion"
    assert body["choices"][0]["message"] == {"role": "assistant", "content": "Hello there.", "refusal": None}
    assert body["choices"][0]["finish_reason"] == "stop"


async def test_a_completion_stops_at_16_tokens_unless_told_otherwise():
    async with an_api() as server:
        body = (await server.complete(ignore_eos=True)).json()
    assert body["usage"]["completion_tokens"] == 16


@pytest.mark.parametrize("endpoint", ["complete", "chat"])
async def test_a_stream_gives_the_text_of_the_whole_answer(endpoint):
    async with a_server(an_engine("Grüße an alle 🌍🌍!")) as server:
        ask = getattr(server, endpoint)
        streamed = events_of((await ask(stream=True, max_tokens=100)).text)
        whole = (await ask(max_tokens=100)).json()["choices"][0]
    assert (
        text_of(streamed)
        == whole.get("text", whole.get("message", {}).get("content"))
        == "Grüße an alle 🌍🌍!"
    )
    assert streamed[-1] == "[DONE]"
    assert streamed[-2]["choices"][0]["finish_reason"] == "stop"


async def test_a_chat_stream_opens_with_the_role():
    async with an_api() as server:
        first = events_of((await server.chat(stream=True)).text)[0]
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}


async def test_a_stream_ends_with_usage_when_asked():
    async with an_api() as server:
        events = events_of((await server.complete(stream=True, stream_options={"include_usage": True})).text)
    assert events[-2]["choices"] == []
    assert events[-2]["usage"]["completion_tokens"] == len("Hello there.")
    assert all(event["usage"] is None for event in events[:-2])


async def test_a_stream_without_the_option_has_no_usage():
    async with an_api() as server:
        events = events_of((await server.complete(stream=True)).text)
    assert not any("usage" in event for event in events[:-1])


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stop_string_ends_the_text_before_it(stream):
    async with an_api(an_engine("one two three")) as server:
        response = await server.complete(stop=["tw", "xyz"], stream=stream)
        await server.until(lambda stats: stats.blocks_referenced == 0)
    text = text_of(events_of(response.text)) if stream else response.json()["choices"][0]["text"]
    assert text == "one "


async def test_a_stop_string_aborts_the_rest_and_counts_as_stop():
    async with an_api(an_engine("one two ", step_seconds=0.001)) as server:
        body = (await server.complete(stop="two", **LONG)).json()
        page = (await server.client.get("/metrics")).text
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["completion_tokens"] == len("one two")
    assert 'finished_reason="stop",model_name="tiny"} 1.0' in page


async def test_several_choices_share_one_prompt_in_the_count():
    async with an_api() as server:
        body = (await server.complete(n=3, max_tokens=4)).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]) == (9, 12)


async def test_several_choices_are_told_apart_in_a_stream():
    async with an_api() as server:
        events = events_of((await server.chat(n=2, stream=True)).text)
    assert [text_of(events, index) for index in (0, 1)] == ["Hello there."] * 2


async def test_samples_of_one_prompt_get_seeds_of_their_own():
    seeds = []

    def script(request):
        seeds.append(request.params.seed)
        return [1]

    async with an_api(ScriptedEngine(script)) as server:
        await server.complete(n=3, seed=7)
    assert seeds[-3:] == [7, 8, 9]


async def test_several_prompts_are_answered_in_their_order():
    echo = ScriptedEngine(lambda request: request.prompt_token_ids)
    async with an_api(echo) as server:
        body = (await server.complete(prompt=["first", "second"], n=2)).json()
    assert [choice["text"] for choice in body["choices"]] == ["first", "first", "second", "second"]
    assert body["usage"]["prompt_tokens"] == len("first") + len("second")


async def test_a_prompt_of_token_ids_is_used_as_it_is():
    echo = ScriptedEngine(lambda request: request.prompt_token_ids)
    async with an_api(echo) as server:
        body = (await server.complete(prompt=a_codec().encode_text("by ids"))).json()
    assert body["choices"][0]["text"] == "by ids"


async def test_cached_prompt_tokens_are_counted():
    prompt = "a prompt that is longer than a block or two of sixteen"
    async with an_api() as server:
        first = (await server.complete(prompt=prompt)).json()
        second = (await server.complete(prompt=prompt, n=2)).json()
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == 48


async def test_the_model_list_names_model_and_context():
    async with an_api() as server:
        entry = (await server.client.get("/v1/models")).json()["data"][0]
    assert (entry["id"], entry["max_model_len"]) == (MODEL_NAME, MAX_MODEL_LEN)


async def test_another_model_is_404():
    async with an_api() as server:
        response = await server.chat(model="gpt-4")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"


async def test_malformed_json_is_400():
    async with an_api() as server:
        response = await server.client.post("/v1/completions", content=b'{"prompt": ')
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


async def test_a_body_of_two_mebibytes_is_413():
    async with a_server() as server:
        response = await server.client.post("/v1/completions", content=b"x" * (2 << 20))
    assert response.status_code == 413


@pytest.mark.parametrize("endpoint", ["complete", "chat"])
async def test_a_prompt_longer_than_the_context_is_400_with_the_numbers(endpoint):
    text = "x" * 3000
    long = {"prompt": text} if endpoint == "complete" else {"messages": [{"role": "user", "content": text}]}
    async with an_api() as server:
        error = (await getattr(server, endpoint)(**long)).json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert str(MAX_MODEL_LEN) in error["message"]
    assert str(MAX_MODEL_LEN - 1) in error["message"]


async def test_an_output_limit_beyond_the_context_is_400_with_what_fits():
    async with an_api() as server:
        error = (await server.complete(max_tokens=MAX_MODEL_LEN)).json()["error"]
    assert f"at most {MAX_MODEL_LEN - 9}" in error["message"]


async def test_a_token_id_outside_the_vocabulary_is_400():
    async with an_api() as server:
        error = (await server.complete(prompt=[5, 100_000])).json()["error"]
    assert (error["param"], error["type"]) == ("prompt", "invalid_request_error")


async def test_an_empty_prompt_is_400():
    async with an_api() as server:
        assert (await server.complete(prompt="")).status_code == 400


async def test_a_model_without_template_sends_chats_to_completions():
    async with an_api(codec=a_codec(template=None)) as server:
        response = await server.chat()
    assert response.status_code == 400
    assert "/v1/completions" in response.json()["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("choices", [1, 4])
async def test_a_client_that_goes_away_frees_its_blocks(stream, choices):
    engine = an_engine(step_seconds=0.002)
    async with a_server(engine) as server:
        asking = asyncio.create_task(server.complete(stream=stream, n=choices, **LONG))
        await server.until(lambda stats: stats.running == choices)
        asking.cancel()
        await server.until(lambda stats: stats.running == stats.waiting == stats.blocks_referenced == 0)
        page = (await server.client.get("/metrics")).text
    assert f'finished_reason="abort",model_name="tiny"}} {choices}.0' in page


async def test_a_client_that_goes_away_while_queued_leaves_the_queue():
    async with a_server(an_engine(step_seconds=0.002, max_num_seqs=1)) as server:
        running = asyncio.create_task(server.complete(**LONG))
        await server.until(lambda stats: stats.running == 1)
        queued = asyncio.create_task(server.complete(stream=True, **LONG))
        await server.until(lambda stats: stats.waiting == 1)
        queued.cancel()
        await server.until(lambda stats: stats.waiting == 0)
        running.cancel()


async def test_an_engine_crash_answers_503_before_the_first_token():
    async with a_server(an_engine(fails_at_step=2)) as server:  # step 1 is the warm-up
        response = await server.complete()
        with pytest.raises(Exception, match="scripted failure"):
            await server.ended
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "engine_failed"


async def test_an_engine_crash_ends_a_stream_with_one_error_event():
    async with a_server(an_engine(fails_at_step=5)) as server:
        events = events_of((await server.complete(stream=True, **LONG)).text)
    assert events[-1]["error"]["code"] == "engine_failed"
    assert text_of(events) == "Hel"


async def test_probes_follow_the_life_of_the_pod():
    loads = asyncio.Event()
    loop = asyncio.get_running_loop()

    def load():
        asyncio.run_coroutine_threadsafe(loads.wait(), loop).result()
        return an_engine()

    async with a_server(load=load, wait=False) as server:
        assert (await server.client.get("/ready")).json() == {
            "ready": False,
            "phase": "loading",
            "stalledSeconds": 0,
        }
        assert (await server.client.get("/health")).status_code == 200
        assert (await server.complete()).json()["error"]["code"] == "loading"
        loads.set()
        await server.ready()
        assert server.runtime.engine.snapshot.stats.generation_tokens == 1


async def test_a_pod_is_not_ready_before_its_warm_up_token():
    engine = an_engine()
    engine.running_allowed.clear()
    async with a_server(engine, wait=False) as server:
        await server.until(lambda stats: stats.waiting == 1)
        assert (await server.client.get("/ready")).status_code == 503
        engine.running_allowed.set()
        await server.ready()


async def test_a_stream_of_many_clients_reaches_each_of_them():
    async with a_server(an_engine(step_seconds=0.001, max_num_seqs=32)) as server:
        responses = await asyncio.gather(
            *(server.complete(stream=True, max_tokens=200, ignore_eos=True) for _ in range(32))
        )
    texts = {text_of(events_of(response.text)) for response in responses}
    assert texts == {("Hello there." * 17)[:200]}


async def test_keep_alive_connections_serve_request_after_request():
    async with a_server() as server:
        limits = httpx.Limits(max_connections=1)
        async with httpx.AsyncClient(base_url=server.client.base_url, limits=limits) as client:
            for _ in range(3):
                assert (await client.post("/v1/completions", json={"prompt": "x"})).status_code == 200
