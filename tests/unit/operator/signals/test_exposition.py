import pytest

from kvis_operator.signals import faults
from kvis_operator.signals.exposition import parse
from observations import NOON

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="smol"} 4.0
vllm:num_requests_waiting{engine="0",model_name="smol"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="smol"} 0.25
vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="1000",cache_dtype="auto"} 1.0
vllm:prefix_cache_queries_total{engine="0",model_name="smol"} 1000.0
vllm:prefix_cache_hits_total{engine="0",model_name="smol"} 300.0
vllm:prompt_tokens_total{engine="0",model_name="smol"} 1000.0
vllm:prompt_tokens_cached_total{engine="0",model_name="smol"} 300.0
vllm:generation_tokens_total{engine="0",model_name="smol"} 90.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="smol"} 7.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="smol"} 2.0
vllm:num_preemptions_total{engine="0",model_name="smol"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="smol"} 3.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="1.0",model_name="smol"} 8.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="smol"} 9.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="smol"} 3.5
vllm:time_to_first_token_seconds_count{engine="0",model_name="smol"} 9.0
process_virtual_memory_bytes 1.0e+10
"""
RUNNING = "vllm:num_requests_running"


def sample(text: str = PAGE):
    return parse(text, at=NOON)


def gauge(value: str, name: str = RUNNING):
    return sample(f"{name} {value}\n")


def test_reads_gauges_counters_and_the_model_name():
    read = sample()
    assert (read.running, read.waiting, read.kv_usage) == (4.0, 2.0, 0.25)
    assert (read.finished_requests, read.generation_tokens, read.preemptions) == (9.0, 90.0, 1.0)
    assert (read.prefix_queries, read.prefix_hits) == (1000.0, 300.0)
    assert read.model_names == {"smol"}
    assert read.at == NOON
    assert read.faults == frozenset()


def test_reads_histograms_in_the_order_of_their_bounds():
    ttft = sample().ttft
    assert ttft is not None
    assert (ttft.bounds, ttft.counts, ttft.total) == ((0.1, 1.0, float("inf")), (3.0, 8.0, 9.0), 3.5)


def test_capacity_is_blocks_times_block_size_unless_the_engine_says_tokens():
    assert (sample().kv_capacity_tokens, sample().block_size) == (16_000.0, 16)
    said = PAGE.replace('cache_dtype="auto"', 'kv_cache_size_tokens="12000"')
    assert sample(said).kv_capacity_tokens == 12_000.0


def test_an_unlimited_or_absent_cache_size_is_unknown():
    read = sample('vllm:cache_config_info{engine="0",block_size="None",num_gpu_blocks="None"} 1.0\n')
    assert (read.kv_capacity_tokens, read.block_size) == (None, None)


def test_an_absent_family_is_unknown_and_not_zero():
    read = sample("vllm:num_requests_waiting 0.0\n")
    assert read.waiting == 0.0
    assert (read.running, read.kv_usage, read.finished_requests, read.ttft, read.engine_steps) == (None,) * 5
    assert read.model_names == frozenset()


def test_an_empty_page_is_all_unknown():
    read = sample("")
    assert (read.running, read.waiting, read.kv_usage, read.prefix_hits) == (None,) * 4


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_a_value_that_is_not_finite_is_unknown(value):
    read = gauge(value)
    assert read.running is None
    assert read.faults == {f"{faults.NOT_FINITE}:running"}


def test_a_negative_count_is_unknown():
    read = gauge("-1")
    assert read.running is None
    assert read.faults == {f"{faults.NEGATIVE}:running"}


def test_one_broken_engine_makes_the_sum_unknown():
    assert sample(f'{RUNNING}{{engine="0"}} 4\n{RUNNING}{{engine="1"}} NaN\n').running is None


@pytest.mark.parametrize(("value", "clamped"), [("1.2", 1.0), ("-0.1", 0.0)])
def test_a_usage_out_of_range_is_clamped_and_flagged(value, clamped):
    read = gauge(value, "vllm:kv_cache_usage_perc")
    assert read.kv_usage == clamped
    assert read.faults == {faults.KV_USAGE_OUT_OF_RANGE}


def test_a_usage_that_is_not_finite_is_unknown():
    read = gauge("NaN", "vllm:kv_cache_usage_perc")
    assert read.kv_usage is None
    assert read.faults == {f"{faults.NOT_FINITE}:kv_usage"}


def test_an_older_name_is_read_and_noted():
    read = gauge("0.5", "vllm:gpu_cache_usage_perc")
    assert read.kv_usage == 0.5
    assert read.faults == {"alias:kv_usage"}


def test_the_current_name_wins_over_the_older_one():
    read = sample("vllm:gpu_cache_usage_perc 0.9\nvllm:kv_cache_usage_perc 0.5\n")
    assert read.kv_usage == 0.5
    assert read.faults == frozenset()


def test_a_counter_without_its_suffix_is_read():
    read = sample("vllm:prompt_tokens 12\n")
    assert read.prompt_tokens == 12.0
    assert read.faults == frozenset()


def test_engines_are_summed_and_usage_is_weighted_by_capacity():
    two = """\
vllm:num_requests_running{engine="0"} 1
vllm:num_requests_running{engine="1"} 2
vllm:kv_cache_usage_perc{engine="0"} 0.2
vllm:kv_cache_usage_perc{engine="1"} 0.8
vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="300"} 1.0
vllm:cache_config_info{engine="1",block_size="8",num_gpu_blocks="200"} 1.0
kvis_runtime_max_num_seqs{engine="0"} 8
kvis_runtime_max_num_seqs{engine="1"} 8
"""
    read = sample(two)
    assert (read.running, read.max_num_seqs, read.kv_capacity_tokens, read.block_size) == (3.0, 16, 6400.0, 8)
    assert read.kv_usage == pytest.approx((0.2 * 4800 + 0.8 * 1600) / 6400)


def test_usage_of_engines_without_a_known_capacity_is_a_plain_mean():
    two = 'vllm:kv_cache_usage_perc{engine="0"} 0.2\nvllm:kv_cache_usage_perc{engine="1"} 0.8\n'
    assert sample(two).kv_usage == pytest.approx(0.5)


def test_histograms_of_several_engines_add_up():
    assert sample(PAGE + PAGE.replace('engine="0"', 'engine="1"')).ttft.counts == (6.0, 16.0, 18.0)


@pytest.mark.parametrize("bucket", ['le="x"} 1', 'le="0.1"} NaN', 'le="0.1"} -1', 'other="0.1"} 1'])
def test_a_broken_bucket_makes_the_histogram_unknown(bucket):
    name = "vllm:time_to_first_token_seconds_bucket"
    read = sample(f'{name}{{{bucket}\n{name}{{le="+Inf"}} 3\n')
    assert read.ttft is None
    assert read.faults == {f"{faults.NOT_FINITE}:ttft"}


def test_a_histogram_without_its_last_bucket_is_unknown():
    assert sample('vllm:time_to_first_token_seconds_bucket{le="0.1"} 3\n').ttft is None


def test_a_malformed_line_costs_only_itself():
    read = sample('vllm:num_requests_waiting{a="b" 3\nvllm:num_requests_running 5\n')
    assert (read.running, read.waiting) == (5.0, None)
    assert faults.MALFORMED in read.faults


def test_computed_tokens_are_read_directly_or_worked_out():
    assert sample().prompt_tokens_computed == 700.0
    direct = 'vllm:prompt_tokens_by_source_total{source="local_compute"} 650\n'
    other = 'vllm:prompt_tokens_by_source_total{source="local_cache_hit"} 350\n'
    assert sample(PAGE + direct + other).prompt_tokens_computed == 650.0
    assert sample("vllm:prompt_tokens_total 5\n").prompt_tokens_computed is None
    assert (
        sample("vllm:prompt_tokens_total 5\nvllm:prompt_tokens_cached_total 6\n").prompt_tokens_computed
        == 0.0
    )


def test_steps_come_from_the_iteration_histogram_where_they_are_not_counted():
    assert sample("vllm:iteration_tokens_total_count 40\n").engine_steps == 40.0
    both = "vllm:iteration_tokens_total_count 40\nkvis_runtime_engine_steps_total 50\n"
    assert sample(both).engine_steps == 50.0


def test_cached_blocks_of_our_engine():
    text = 'kvis_runtime_kv_blocks{state="cached"} 7\nkvis_runtime_kv_blocks{state="free"} 9\n'
    assert sample(text).kv_cached_blocks == 7.0
    assert sample('kvis_runtime_kv_blocks{state="cached"} NaN\n').kv_cached_blocks is None


def test_the_samples_own_time_stamp_counts():
    assert sample(f"{RUNNING} 1 {int((NOON - 40) * 1000)}\n").at == NOON - 40


def test_the_oldest_stamp_of_a_page_counts():
    page = f"{RUNNING} 1 {int((NOON - 40) * 1000)}\nvllm:num_requests_waiting 1 {int((NOON - 90) * 1000)}\n"
    assert sample(page).at == NOON - 90


def test_a_stamp_from_the_future_is_a_fault():
    read = sample(f"{RUNNING} 1 {int((NOON + 60) * 1000)}\n")
    assert (read.at, read.faults) == (NOON, {faults.FUTURE_TIME_STAMP})
    assert sample(f"{RUNNING} 1 {int((NOON + 4) * 1000)}\n").faults == frozenset()


def test_strange_labels_do_not_confuse():
    assert sample(RUNNING + '{model_name="a} b \\"c\\" , {d="} 3\n').running == 3.0
