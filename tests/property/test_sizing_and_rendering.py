"""Whatever a resource says, sizing answers and the pods stay within what an administrator allows."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvis_operator.api.v1alpha1 import KVInferenceService
from kvis_operator.render.labels import ADMIN_KEY_ROLE, child_name
from kvis_operator.render.objects import Wanted, render
from kvis_operator.sizing.fit import fit
from kvis_operator.sizing.plan import Infeasible, Plan
from pod_security import restricted_violations
from service_builders import a_manifest, a_table, wanted

MIB = 2**20
TABLE = a_table()
HOSTILE = st.sampled_from(["a", "models/x", "x--trust-remote-code", "A_b.c-d", "0"])


def _optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


URIS = st.one_of(
    st.just("bundled://smollm2-135m"),
    HOSTILE.map(lambda path: f"pvc://claim/{path}"),
    st.just("bundled://other"),
)
SPECS = st.fixed_dictionaries(
    {
        "model": st.fixed_dictionaries(
            {"uri": URIS}, optional={"maxLength": st.integers(16, 100_000), "servedName": HOSTILE}
        )
    },
    optional={
        "kvCache": _optional(
            dtype=st.sampled_from(["auto", "float32", "bfloat16"]),
            blockSize=st.integers(1, 1024),
            memory=st.integers(0, 4096).map(lambda m: f"{m}Mi"),
            prefixCaching=st.booleans(),
        ),
        "batching": _optional(maxNumSeqs=st.integers(1, 64), maxNumBatchedTokens=st.integers(64, 8192)),
        "scaling": _optional(minReplicas=st.integers(1, 3), maxReplicas=st.integers(3, 1000)),
        "tuning": _optional(mode=st.sampled_from(["Off", "Recommend", "Auto"])),
        "paused": st.booleans(),
        "replicas": st.integers(0, 1000),
    },
)


def _service(spec: dict[str, Any]) -> KVInferenceService:
    return KVInferenceService.parse(a_manifest(**spec))


@settings(max_examples=50, deadline=None)
@given(SPECS)
def test_every_resource_gets_a_plan_or_a_reason(spec: dict[str, Any]) -> None:
    result = fit(_service(spec).spec, TABLE)
    assert isinstance(result, Plan) or result.message


@settings(max_examples=50, deadline=None)
@given(SPECS)
def test_a_plan_never_exceeds_the_pod(spec: dict[str, Any]) -> None:
    plan = fit(_service(spec).spec, TABLE)
    if isinstance(plan, Infeasible):
        return
    assert (
        plan.kv_memory_bytes + (plan.weights_bytes or 0) <= plan.pod_memory_limit_bytes
        or not plan.is_shape_known
    )
    assert plan.pod_memory_request_bytes <= plan.pod_memory_limit_bytes
    assert 1 <= plan.max_num_seqs <= plan.max_num_batched_tokens
    if plan.is_shape_known:
        assert plan.kv_capacity_tokens is not None
        assert plan.max_model_len is not None
        assert plan.max_model_len <= plan.kv_capacity_tokens


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 1500), st.integers(0, 500))
def test_more_kv_memory_never_holds_fewer_tokens(memory: int, more: int) -> None:
    small = fit(_service({"kvCache": {"memory": f"{memory}Mi"}}).spec, TABLE)
    large = fit(_service({"kvCache": {"memory": f"{memory + more}Mi"}}).spec, TABLE)
    if isinstance(small, Plan) and isinstance(large, Plan):
        assert (large.kv_capacity_tokens or 0) >= (small.kv_capacity_tokens or 0)


@settings(max_examples=50, deadline=None)
@given(SPECS)
def test_every_pod_passes_pod_security_restricted(spec: dict[str, Any]) -> None:
    service = _service(spec)
    plan = fit(service.spec, TABLE)
    if isinstance(plan, Infeasible):
        return
    deployment = render(Wanted(service, plan, TABLE.profiles["cpu-small"], 1, "KEY"))[-1]
    assert restricted_violations(deployment["spec"]["template"]["spec"]) == []


@settings(max_examples=50, deadline=None)
@given(SPECS)
def test_a_resource_reaches_a_pod_only_through_arguments_requests_and_its_claim(spec: dict[str, Any]) -> None:
    service = _service(spec)
    plan = fit(service.spec, TABLE)
    if isinstance(plan, Infeasible):
        return
    pod = render(Wanted(service, plan, TABLE.profiles["cpu-small"], 1, "KEY"))[-1]["spec"]["template"]["spec"]
    baseline = render(wanted())[-1]["spec"]["template"]["spec"]
    assert _without_what_may_differ(pod) == _without_what_may_differ(baseline)


@settings(max_examples=50, deadline=None)
@given(SPECS)
def test_every_argument_is_one_flag_with_its_value(spec: dict[str, Any]) -> None:
    service = _service(spec)
    plan = fit(service.spec, TABLE)
    if isinstance(plan, Infeasible):
        return
    deployment = render(Wanted(service, plan, TABLE.profiles["cpu-small"], 1, "KEY"))[-1]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    flags = [argument.partition("=")[0] for argument in arguments[1:]]
    assert len(set(flags)) == len(flags)
    assert set(flags) <= set(_baseline_flags()) | {"--max-model-len"}


@given(
    st.from_regex(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True),
    st.sampled_from([None, ADMIN_KEY_ROLE, "canary"]),
)
def test_a_derived_name_always_fits(service: str, role: str | None) -> None:
    name = child_name(service, role)
    assert len(name) <= 63
    assert name.startswith(service[:20])


@given(st.sets(st.integers(0, 10**9), min_size=2, max_size=20))
def test_long_names_that_share_their_beginning_never_clash(endings: set[int]) -> None:
    names = {child_name(f"{'a' * 53}{ending}", ADMIN_KEY_ROLE) for ending in endings}
    assert len(names) == len(endings)


def _baseline_flags() -> list[str]:
    container = render(wanted())[-1]["spec"]["template"]["spec"]["containers"][0]
    return [argument.partition("=")[0] for argument in container["args"][1:]]


def _without_what_may_differ(pod: dict[str, Any]) -> dict[str, Any]:
    container = {k: v for k, v in pod["containers"][0].items() if k not in ("args", "resources")}
    container["volumeMounts"] = [m for m in container["volumeMounts"] if m["name"] != "model"]
    volumes = [v for v in pod["volumes"] if v["name"] != "model"]
    return {**pod, "containers": [container], "volumes": volumes}
