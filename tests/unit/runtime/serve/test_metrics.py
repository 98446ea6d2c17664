"""The metrics page: vLLM's names, complete from the start, consistent, and readable by Prometheus."""

import shutil
import subprocess

from prometheus_client.parser import text_string_to_metric_families

from kvis_kv import series
from serving.running import MODEL_NAME, a_server, an_api, an_engine

EVERY_SERIES = {value for name, value in vars(series).items() if name.isupper() and isinstance(value, str)}
LABELS = {"model_name": MODEL_NAME, "engine": "0"}


async def page_of(server):
    return (await server.client.get("/metrics")).text


def samples(page):
    families = text_string_to_metric_families(page)
    return [sample for family in families for sample in family.samples]


def value(page, name, **labels):
    wanted = {**LABELS, **labels}
    [found] = [sample.value for sample in samples(page) if sample.name == name and sample.labels == wanted]
    return found


async def test_every_series_the_operator_reads_is_there_from_the_start():
    async with an_api() as server:
        page = await page_of(server)
    names = {sample.name.removesuffix("_count") for sample in samples(page)}
    assert names >= EVERY_SERIES


async def test_counters_of_ends_and_sources_start_at_zero():
    async with an_api() as server:
        page = await page_of(server)
    assert value(page, series.REQUEST_SUCCESS, finished_reason="error") == 0
    assert value(page, series.PROMPT_TOKENS_BY_SOURCE, source="external_kv_transfer") == 0
    assert value(page, series.ADMISSION_REJECTIONS, reason="max_num_queued_reqs") == 0


async def test_requests_and_tokens_are_counted():
    prompt = "x" * 40
    async with an_api() as server:
        before = await page_of(server)
        for _ in range(2):
            await server.complete(prompt=prompt, max_tokens=5)
        page = await page_of(server)

    def grown(name, **labels):
        return value(page, name, **labels) - value(before, name, **labels)

    assert grown(series.REQUEST_SUCCESS, finished_reason="length") == 2
    assert grown(series.PROMPT_TOKENS) == 80
    assert grown(series.GENERATION_TOKENS) == 10
    assert grown(series.PREFIX_HITS) == grown(series.PROMPT_TOKENS_CACHED) == 32
    assert grown(series.PROMPT_TOKENS_BY_SOURCE, source="local_compute") == 48
    assert grown(series.PROMPT_TOKENS_BY_SOURCE, source="local_cache_hit") == 32


async def test_latencies_are_observed_once_per_request_or_token():
    async with an_api(an_engine(step_seconds=0.002)) as server:
        await server.complete(max_tokens=5)
        await server.complete(max_tokens=1)
        page = await page_of(server)
    assert value(page, series.TTFT_SECONDS + "_count") == 2
    assert value(page, series.E2E_SECONDS + "_count") == 2
    assert value(page, series.QUEUE_SECONDS + "_count") == 2
    assert value(page, series.INTER_TOKEN_SECONDS + "_count") == 4
    assert value(page, series.TPOT_SECONDS + "_count") == 1
    assert 0.002 <= value(page, series.TPOT_SECONDS + "_sum") < 1


async def test_blocks_add_up_and_usage_counts_referenced_ones():
    body = {"prompt": "x", "max_tokens": 1500, "ignore_eos": True, "stream": True}
    async with (
        a_server(an_engine(step_seconds=0.002)) as server,
        server.client.stream("POST", "/v1/completions", json=body) as response,
    ):
        await anext(response.aiter_bytes())
        page = await page_of(server)
    blocks = {state: value(page, series.KV_BLOCKS, state=state) for state in ("referenced", "cached", "free")}
    assert blocks["referenced"] > 0
    assert value(page, series.KV_CACHE_USAGE) == blocks["referenced"] / sum(blocks.values())
    assert value(page, series.REQUESTS_RUNNING) == 1


async def test_the_cache_configuration_is_in_labels():
    async with an_api() as server:
        page = await page_of(server)
    [labels] = [sample.labels for sample in samples(page) if sample.name == series.CACHE_CONFIG_INFO]
    assert labels["block_size"] == "16"
    assert int(labels["kv_cache_size_tokens"]) == 16 * int(labels["num_gpu_blocks"])
    assert (labels["cache_dtype"], labels["enable_prefix_caching"]) == ("float32", "True")


async def test_the_engines_series_are_absent_until_it_is_loaded():
    engine = an_engine()
    engine.running_allowed.clear()
    async with a_server(load=lambda: engine.running_allowed.wait() and engine, wait=False) as server:
        page = await page_of(server)
        engine.running_allowed.set()
        await server.ready()
    assert series.KV_CACHE_USAGE not in page
    assert value(page, series.DRAINING) == 0


async def test_prometheus_can_read_the_page():
    async with an_api() as server:
        page = await page_of(server)
    assert len(samples(page)) > len(EVERY_SERIES)
    for complaint in promtool_complaints(page):
        assert complaint.startswith("vllm:")
        assert "':'" in complaint or complaint.startswith("vllm:iteration_tokens_total ")


def promtool_complaints(page):
    """What Prometheus' own checker says; nothing where it is not installed. The names are vLLM's."""
    promtool = shutil.which("promtool")
    if promtool is None:
        return []
    command = [promtool, "check", "metrics"]
    check = subprocess.run(command, input=page, capture_output=True, text=True, check=False)
    assert check.returncode in (0, 3)  # 3: complaints about style only
    return [line for line in check.stderr.splitlines() if line.strip()]
