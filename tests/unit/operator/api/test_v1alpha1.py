import pytest

from kvis_operator.api.errors import SpecInvalid
from kvis_operator.api.v1alpha1 import KVInferenceService, TuningMode
from service_builders import a_manifest, a_service


def _errors(**spec: object) -> dict[str, str]:
    with pytest.raises(SpecInvalid) as refused:
        KVInferenceService.parse(a_manifest(**spec))
    return dict(refused.value.errors)


def test_an_absent_section_has_its_defaults() -> None:
    spec = a_service().spec
    assert (spec.tuning.mode, spec.scaling.min_replicas, spec.kv_cache.prefix_caching) == (
        TuningMode.AUTO,
        1,
        True,
    )


def test_quantities_and_durations_become_bytes_and_seconds() -> None:
    spec = a_service(kvCache={"memory": "512Mi"}, slo={"ttftP95": "1.5s"}, scaling={"downMemory": "30m"}).spec
    assert spec.kv_cache.memory_bytes == 512 * 2**20
    assert (spec.slo.ttft_p95_seconds, spec.scaling.down_memory_seconds) == (1.5, 1800)


def test_no_maximum_means_that_nothing_scales() -> None:
    assert a_service(scaling={"minReplicas": 3}).spec.scaling.upper_bound == 3


def test_a_misspelt_field_is_named_with_the_one_that_was_meant() -> None:
    assert _errors(batching={"maxNumSeq": 8}) == {
        "spec.batching.maxNumSeq": "unknown field, did you mean maxNumSeqs?"
    }


def test_an_unknown_field_without_a_neighbour_lists_the_known_ones() -> None:
    assert "known are input" in _errors(workload={"zzz": 1})["spec.workload.zzz"]


def test_every_wrong_field_is_reported_at_once() -> None:
    errors = _errors(kvCache={"blockSize": 0, "dtype": "fp8"}, scaling={"minReplicas": 0})
    assert set(errors) == {"spec.kvCache.blockSize", "spec.kvCache.dtype", "spec.scaling.minReplicas"}


def test_a_python_name_is_not_a_field() -> None:
    assert set(_errors(kv_cache={})) == {"spec.kv_cache"}


def test_a_number_given_as_text_is_refused() -> None:
    assert "spec.batching.maxNumSeqs" in _errors(batching={"maxNumSeqs": "8"})


@pytest.mark.parametrize("value", [True, 1.5, [1], {}, float("nan")])
def test_what_is_no_whole_number_is_refused(value: object) -> None:
    assert "spec.replicas" in _errors(replicas=value)


def test_another_kind_is_refused() -> None:
    with pytest.raises(SpecInvalid, match=r"kvis\.dev/v1alpha1 KVInferenceService"):
        KVInferenceService.parse(a_manifest() | {"kind": "Deployment"})


def test_status_is_not_judged() -> None:
    assert KVInferenceService.parse(a_manifest() | {"status": {"written": "by an older operator"}})


def test_a_bundled_model_is_served_under_its_own_name() -> None:
    assert a_service().spec.model.api_name == "smollm2-135m"


def test_a_claim_is_told_from_its_path() -> None:
    assert a_service(model={"uri": "pvc://models/a/b"}).spec.model.claim == ("models", "a/b")


@pytest.mark.parametrize(
    "uri",
    [
        "hf://org/name",
        "file:///etc/passwd",
        "bundled://",
        "bundled://../x",
        "bundled://a/b",
        "pvc://claim",
        "pvc://claim/",
        "pvc://claim//x",
        "pvc://claim/a/../b",
        "pvc://claim/.hidden",
        "pvc://Claim/x",
        "pvc://claim/a b",
        "pvc://claim/a\n",
        "/etc/passwd",
        "",
    ],
)
def test_a_uri_that_could_reach_elsewhere_is_refused(uri: str) -> None:
    assert "spec.model.uri" in _errors(model={"uri": uri})


@pytest.mark.parametrize("name", ["a" * 64, "7b", "a.b", "-a", "a-", "A"])
def test_a_name_that_cannot_name_a_service_is_refused(name: str) -> None:
    with pytest.raises(SpecInvalid, match=r"metadata\.name"):
        a_service(name)
