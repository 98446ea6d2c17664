import pytest
import yaml

from kvis_operator.api.errors import ProfilesInvalid
from kvis_operator.api.profile import load_profiles
from service_builders import a_profile_document


def _load(**changes: object) -> None:
    load_profiles(yaml.safe_dump({"profiles": {"cpu-small": a_profile_document(**changes)}}))


def _refused(**changes: object) -> str:
    with pytest.raises(ProfilesInvalid) as refused:
        _load(**changes)
    return str(refused.value)


def test_a_table_gives_profiles_by_name() -> None:
    text = yaml.safe_dump({"profiles": {"b": a_profile_document(), "a": a_profile_document()}})
    table = load_profiles(text)
    assert table.names == ("a", "b")
    assert table.get("c") is None


def test_cpu_may_be_a_number_or_a_text() -> None:
    text = yaml.safe_dump({"profiles": {"x": a_profile_document(cpu=0.5, cpuRequest="100m")}})
    profile = load_profiles(text).profiles["x"]
    assert (profile.cpu_millicores, profile.cpu_request_millicores) == (500, 100)


def test_numbers_that_helm_writes_with_an_exponent_are_read() -> None:
    text = "profiles: {x: " + yaml.safe_dump(a_profile_document(), default_flow_style=True).strip() + "}"
    assert load_profiles(text.replace("2.0e-06", "2e-06")).profiles["x"].step_time.c == pytest.approx(2e-6)


def test_an_unknown_field_is_named() -> None:
    assert "profiles.cpu-small.memori: unknown field" in _refused(memori="1Gi")


def test_a_profile_without_a_prior_is_refused() -> None:
    assert "profiles.cpu-small.stepTime: required" in _refused(stepTime=None)


def test_a_prior_of_zero_is_refused() -> None:
    assert "stepTime.a" in _refused(stepTime={"a": 0, "p": 0.1, "d": 0, "c": 0})


@pytest.mark.parametrize("image", ["kvis/runtime", "kvis/runtime:latest", "registry:5000/kvis/runtime", ""])
def test_an_image_that_may_change_under_its_name_is_refused(image: str) -> None:
    assert "engines.torch.image" in _refused(engines={"torch": {"image": image}})


@pytest.mark.parametrize(
    "image", ["kvis/runtime:1", "registry:5000/runtime:1", f"kvis/runtime@sha256:{'0' * 64}"]
)
def test_a_tag_or_a_digest_pins_an_image(image: str) -> None:
    _load(engines={"torch": {"image": image}})


def test_kv_memory_must_leave_room_for_the_weights() -> None:
    assert "kvMemory must be smaller than memory" in _refused(kvMemory="3Gi")


def test_a_block_size_that_the_engine_lacks_cannot_be_offered() -> None:
    assert "7 is not among" in _refused(engines={"torch": {"image": "a:1", "blockSizes": [7, 16]}})


def test_a_dtype_that_the_engine_lacks_cannot_be_offered() -> None:
    assert "fp8_e4m3 is not among" in _refused(engines={"torch": {"image": "a:1", "kvDtypes": ["fp8_e4m3"]}})


def test_the_default_block_size_must_be_offered() -> None:
    assert "defaultBlockSize 16 is not among" in _refused(
        engines={"torch": {"image": "a:1", "blockSizes": [32]}}
    )


@pytest.mark.parametrize(
    "text", ["", "[]", "profiles: {}", "profiles: [", "profiles: {Bad_Name: {}}", "x: 1"]
)
def test_what_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(ProfilesInvalid):
        load_profiles(text)
