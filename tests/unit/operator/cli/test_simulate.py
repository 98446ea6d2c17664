"""`kvis simulate` from files alone: what it prints and writes, and how it refuses what cannot be used."""

import json
from pathlib import Path

import pytest

from kvis_operator.cli.main import main

PROFILE = """
profiles:
  small:
    engines: {torch: {image: "kvis-runtime:1"}}
    cpu: "2"
    memory: 3Gi
    kvMemory: 512Mi
    maxNumSeqs: 64
    models: {bundled: [smollm2-135m], pvc: true}
    stepTime: {a: 0.02, p: 0.0001, d: 0.0002, c: 0.0000001}
    startSeconds: 60
"""
SERVICE = """
apiVersion: kvis.dev/v1alpha1
kind: KVInferenceService
metadata: {name: chat}
spec:
  model: {uri: "pvc://models/any", maxLength: 4096}
  profile: small
  slo: {ttftP95: 2s, tpotP95: TPOT}
  scaling: {minReplicas: 1, maxReplicas: 8}
"""
HEADER = "timestamp_ms,prompt_tokens,output_tokens"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "profiles.yaml").write_text(PROFILE)
    (tmp_path / "service.yaml").write_text(SERVICE.replace("TPOT", "100ms"))
    rows = [f"{second * 1000},200,40" for second in range(600)]
    (tmp_path / "trace.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    return tmp_path


def simulate(files: Path, *more: str, trace: str = "trace.csv") -> int:
    path = files / trace
    named = str(path) if path.exists() else trace
    given = ["-f", str(files / "service.yaml"), "--profile", str(files / "profiles.yaml"), "--trace", named]
    return main(["simulate", *given, *more])


def test_prints_ours_beside_the_named_rival(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(files, "--versus", "hpa:inflight=8") == 0
    out = capsys.readouterr().out
    assert "(simulated)" in out
    assert "kvis" in out
    assert "hpa:inflight=8" in out
    assert "100.00% of" in out


def test_writes_json_and_a_self_contained_page(files: Path) -> None:
    assert simulate(files, "--json", str(files / "out.json"), "--html", str(files / "out.html")) == 0
    document = json.loads((files / "out.json").read_text())
    assert document["label"] == "simulated"
    assert document["runs"][0]["attainment"] == 1.0
    page = (files / "out.html").read_text()
    assert "<svg" in page
    assert "http" not in page


def test_same_seed_same_numbers(files: Path) -> None:
    for name in ("a", "b"):
        simulate(files, "--seed", "5", "--json", str(files / name))
    assert (files / "a").read_text() == (files / "b").read_text()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        (HEADER + "\n", "no requests"),
        (f"{HEADER}\n-5,10,10\n", "timestamp_ms"),
        (f"{HEADER}\n2000,10,10\n1000,10,10\n", "goes back"),
        ("when,how,what\n1,2,3\n", "unknown"),
    ],
)
def test_a_bad_trace_is_refused_by_file_line_and_column(
    files: Path, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "bad.csv").write_text(content)
    assert simulate(files, trace="bad.csv") == 2
    err = capsys.readouterr().err
    assert "bad.csv" in err
    assert message in err


def test_an_unknown_trace_lists_the_bundled_ones(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(files, trace="mystery") == 2
    assert "mooncake-conversation" in capsys.readouterr().err


def test_a_profile_without_prior_is_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(line for line in PROFILE.splitlines() if "stepTime" not in line)
    (files / "profiles.yaml").write_text(text)
    assert simulate(files) == 2
    assert "stepTime" in capsys.readouterr().err


def test_an_impossible_objective_says_the_best_reachable_value(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "service.yaml").write_text(SERVICE.replace("TPOT", "10ms"))
    assert simulate(files) == 2
    err = capsys.readouterr().err
    assert "SLOInfeasible" in err
    assert "20.7 ms" in err


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("hpa:", "no threshold"),
        ("hpa:inflight=0", "above 0"),
        ("hpa:inflight=-3", "above 0"),
        ("hpa:inflight=nan", "above 0"),
        ("hpa:kv=80", "at most 1"),
        ("hpa:inflight=8,inflight=9", "twice"),
        ("hpa:inflight=8,down=90000", "within"),
        ("hpa:down=300", "no threshold"),
        ("hpa:load=8", "unknown threshold"),
        ("vpa:inflight=8", "unknown autoscaler"),
        ("keda:inflight=8,waiting=5", "one metric"),
    ],
)
def test_thresholds_are_never_guessed(
    files: Path, rule: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate(files, "--versus", rule) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags", [("--copies", "0"), ("--keep", "0"), ("--keep", "2"), ("--minutes", "0"), ("--initial", "99")]
)
def test_numbers_out_of_range_are_refused(
    files: Path, flags: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate(files, *flags) == 2
    assert flags[0] in capsys.readouterr().err


def test_a_missing_manifest_is_named(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "service.yaml").unlink()
    assert simulate(files) == 2
    assert "service.yaml" in capsys.readouterr().err


def test_a_wrong_manifest_names_the_field(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "service.yaml").write_text(
        SERVICE.replace("TPOT", "100ms").replace("minReplicas: 1", "minReplicas: 0")
    )
    assert simulate(files) == 2
    assert "minReplicas" in capsys.readouterr().err
