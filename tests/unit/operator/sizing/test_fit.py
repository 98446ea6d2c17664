import pytest

from kvis_kv.layout import bytes_per_token
from kvis_kv.models import BUNDLED
from kvis_operator.api.conditions import ConditionType, Reason
from kvis_operator.api.profile import ProfileTable
from kvis_operator.sizing.fit import fit
from kvis_operator.sizing.plan import Plan
from service_builders import MODEL, a_plan, a_profile, a_refusal, a_service, a_table

SMOL = BUNDLED["smollm2-135m"]
MIB = 2**20


def _with_length(tokens: int) -> dict[str, object]:
    return {"uri": MODEL, "maxLength": tokens}


def test_an_empty_wish_gets_the_profiles_sizes() -> None:
    plan = a_plan(a_service())
    assert (plan.kv_memory_bytes, plan.block_size, plan.max_num_seqs) == (512 * MIB, 16, 16)
    assert (plan.image, plan.model_path) == ("kvis/runtime:0.1.0", "/models/smollm2-135m")


def test_the_format_follows_the_model_when_it_is_left_open() -> None:
    assert a_plan(a_service()).kv_dtype == "float32"


def test_the_capacity_is_what_whole_blocks_hold() -> None:
    plan = a_plan(a_service(kvCache={"memory": "100Mi", "blockSize": 32, "dtype": "bfloat16"}))
    blocks = 100 * MIB // (32 * bytes_per_token(SMOL, plan.kv_dtype))
    assert plan.kv_capacity_tokens == blocks * 32 == 4544


def test_the_longest_sequence_is_the_models_own_where_memory_allows() -> None:
    assert a_plan(a_service()).max_model_len == SMOL.context


def test_the_longest_sequence_is_what_a_small_cache_holds() -> None:
    plan = a_plan(a_service(kvCache={"memory": "50Mi"}))
    assert plan.max_model_len == plan.kv_capacity_tokens == 1136


def test_given_numbers_are_kept() -> None:
    plan = a_plan(a_service(model=_with_length(1024), batching={"maxNumSeqs": 24, "maxNumBatchedTokens": 64}))
    assert (plan.max_model_len, plan.max_num_seqs, plan.max_num_batched_tokens) == (1024, 24, 64)


def test_a_small_step_lowers_the_profiles_ceiling() -> None:
    assert a_plan(a_service(), a_table(maxNumSeqs=64)).max_num_seqs == 64
    assert a_plan(a_service(batching={"maxNumBatchedTokens": 16}), a_table(maxNumSeqs=64)).max_num_seqs == 16


def test_a_high_ceiling_raises_the_profiles_step() -> None:
    assert a_plan(a_service(batching={"maxNumSeqs": 600})).max_num_batched_tokens == 600


def test_a_pod_asks_the_scheduler_for_what_it_needs() -> None:
    plan = a_plan(a_service(kvCache={"memory": "64Mi"}))
    assert plan.weights_bytes == SMOL.parameters * 4
    assert plan.weights_bytes + 64 * MIB < plan.pod_memory_request_bytes < plan.pod_memory_limit_bytes
    assert plan.pod_memory_limit_bytes == 3 * 2**30


def test_a_missing_profile_names_those_that_exist() -> None:
    table = ProfileTable({"gpu": a_profile(), "cpu-small": a_profile()})
    refusal = a_refusal(table, profile="cpu-large")
    assert (refusal.condition, refusal.reason) == (ConditionType.ACCEPTED, Reason.PROFILE_NOT_FOUND)
    assert refusal.message == "profile cpu-large does not exist, there are: cpu-small, gpu"


def test_a_block_size_that_the_engine_cannot_use_names_the_nearest() -> None:
    refusal = a_refusal(kvCache={"blockSize": 7})
    assert (refusal.condition, refusal.reason) == (ConditionType.SIZED, Reason.BLOCK_SIZE_UNSUPPORTED)
    assert "kvCache.blockSize 7" in refusal.message
    assert refusal.numbers == {"nearest": 8}


@pytest.mark.parametrize(("asked", "nearest"), [(1, 8), (12, 8), (13, 16), (100, 128), (1024, 256)])
def test_the_nearest_block_size_is_one_that_works(asked: int, nearest: int) -> None:
    assert a_refusal(kvCache={"blockSize": asked}).numbers == {"nearest": nearest}
    assert isinstance(fit(a_service(kvCache={"blockSize": nearest}).spec, a_table()), Plan)


def test_a_dtype_that_the_profile_does_not_offer_names_those_it_does() -> None:
    table = a_table(engines={"torch": {"image": "kvis/runtime:1", "kvDtypes": ["float32"]}})
    refusal = a_refusal(table, kvCache={"dtype": "bfloat16"})
    assert refusal.reason == Reason.DTYPE_UNSUPPORTED
    assert "kvCache.dtype bfloat16" in refusal.message
    assert "it stores float32" in refusal.message


def test_a_length_beyond_the_model_names_the_longest() -> None:
    refusal = a_refusal(model=_with_length(20_000))
    assert (refusal.reason, refusal.numbers) == (Reason.LENGTH_EXCEEDS_MODEL, {"longest_tokens": 8192})
    assert "model.maxLength 20000" in refusal.message


def test_kv_memory_too_small_for_the_length_names_both_ways_out() -> None:
    refusal = a_refusal(model=_with_length(2048), kvCache={"memory": "8Mi"})
    assert refusal.reason == Reason.KV_MEMORY_TOO_SMALL
    assert refusal.numbers == {"longest_tokens": 176, "needed_bytes": 90 * MIB}
    assert "at most 176 tokens would fit" in refusal.message
    assert "at least 90Mi" in refusal.message


@pytest.mark.parametrize("memory", ["8Mi", "33Mi", "89Mi"])
def test_both_ways_out_of_a_small_memory_work(memory: str) -> None:
    numbers = a_refusal(model=_with_length(2048), kvCache={"memory": memory}).numbers
    shorter = a_service(model=_with_length(int(numbers["longest_tokens"])), kvCache={"memory": memory})
    larger = a_service(model=_with_length(2048), kvCache={"memory": str(int(numbers["needed_bytes"]))})
    assert isinstance(fit(shorter.spec, a_table()), Plan)
    assert isinstance(fit(larger.spec, a_table()), Plan)


def test_no_memory_at_all_is_refused_with_the_memory_that_is_needed() -> None:
    refusal = a_refusal(kvCache={"memory": "0"})
    assert refusal.reason == Reason.KV_MEMORY_TOO_SMALL
    assert "not even one block fits" in refusal.message


def test_hinted_requests_must_fit_even_without_a_length() -> None:
    refusal = a_refusal(kvCache={"memory": "16Mi"}, workload={"inputTokens": 600, "outputTokens": 100})
    assert "workload.inputTokens + outputTokens 700" in refusal.message


def test_more_memory_than_the_profile_has_names_the_most_that_works() -> None:
    refusal = a_refusal(kvCache={"memory": "9Gi"})
    assert refusal.reason == Reason.MEMORY_EXCEEDS_PROFILE
    most = int(refusal.numbers["most_bytes"])
    assert isinstance(fit(a_service(kvCache={"memory": str(most)}).spec, a_table()), Plan)
    assert a_refusal(kvCache={"memory": str(most + MIB)}).reason == Reason.MEMORY_EXCEEDS_PROFILE


def test_a_profile_too_small_for_the_weights_says_so() -> None:
    assert "use a profile with more memory" in a_refusal(a_table(memory="600Mi")).message


def test_a_model_that_the_profile_does_not_offer_names_those_it_does() -> None:
    refusal = a_refusal(model={"uri": "bundled://gpt2"})
    assert (refusal.condition, refusal.reason) == (ConditionType.ACCEPTED, Reason.MODEL_NOT_ALLOWED)
    assert "bundled://smollm2-135m" in refusal.message


def test_claims_may_be_forbidden() -> None:
    refusal = a_refusal(a_table(models={"bundled": ["smollm2-135m"]}), model={"uri": "pvc://models/a"})
    assert refusal.reason == Reason.MODEL_NOT_ALLOWED


def test_a_model_that_the_image_lacks_names_those_it_has() -> None:
    refusal = a_refusal(a_table(models={"bundled": ["gpt2"]}), model={"uri": "bundled://gpt2"})
    assert refusal.reason == Reason.MODEL_UNKNOWN
    assert "smollm2-135m" in refusal.message


def test_a_model_of_a_claim_is_planned_without_its_shape() -> None:
    plan = a_plan(a_service(model={"uri": "pvc://models/llama/tiny"}, kvCache={"memory": "128Mi"}))
    assert plan.model_path == "/models/pvc/llama/tiny"
    assert not plan.is_shape_known
    assert (plan.kv_capacity_tokens, plan.max_model_len) == (None, None)
    assert plan.pod_memory_request_bytes == plan.pod_memory_limit_bytes


def test_a_plan_says_in_a_sentence_what_it_gives() -> None:
    assert a_plan(a_service()).summary == (
        "512Mi of KV cache in blocks of 16 tokens holds 11648 tokens in float32; sequences of up to "
        "8192 tokens, at most 16 at once"
    )


def test_a_plan_is_shown_in_status() -> None:
    status = a_plan(a_service()).to_status()
    assert (status.kv_memory, status.pod_memory, status.kv_capacity_tokens) == ("512Mi", "3Gi", 11648)
