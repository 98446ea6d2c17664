"""`kvis record` against a local server, and the replay of what it wrote."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kvis_operator.cli.main import main
from kvis_operator.cli.recording import COLUMNS, RecordingError, Scrape, read_recording, write_recording
from kvis_operator.signals.observation import PodPhase, PodState
from kvis_operator.signals.sample import Histogram, PodSample

PROFILE = """
profiles:
  small:
    engines: {torch: {image: "kvis-runtime:1"}}
    cpu: "2"
    memory: 3Gi
    kvMemory: 512Mi
    models: {pvc: true}
    stepTime: {a: 0.02, p: 0.0001, d: 0.0002, c: 0.0000001}
"""
SERVICE = """
apiVersion: kvis.dev/v1alpha1
kind: KVInferenceService
metadata: {name: chat}
spec:
  model: {uri: "pvc://models/any", maxLength: 4096}
  profile: small
  scaling: {minReplicas: 1, maxReplicas: 8}
"""
METRICS = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3
vllm:num_requests_waiting{engine="0",model_name="m"} 1
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
"""
NOW = 1_700_000_000.0
POD = PodState("chat-0", "uid-0", PodPhase.READY, NOW - 600.0, NOW - 500.0)


class _Metrics(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = METRICS.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Metrics)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
    server.shutdown()
    server.server_close()
    thread.join()


def a_sample(at: float, finished: float = 0.0) -> PodSample:
    return PodSample(
        at=at,
        running=3.0,
        waiting=0.0,
        kv_usage=0.2,
        kv_capacity_tokens=10_000.0,
        block_size=16,
        finished_requests=finished,
        prompt_tokens=200.0 * finished,
        generation_tokens=40.0 * finished,
        ttft=Histogram((0.5, float("inf")), (finished, finished), 0.1 * finished),
    )


def test_records_pods_that_answer_and_those_that_do_not(url: str, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    refused = "http://127.0.0.1:9/metrics"
    assert (
        main(
            ["record", "--url", url, "--url", refused, "-o", str(out), "--interval", "1", "--minutes", "0.01"]
        )
        == 0
    )
    (scrape,) = read_recording(out)
    assert len(scrape.pods) == 2
    assert scrape.samples[url].running == 3.0
    assert refused not in scrape.samples


@pytest.mark.parametrize(
    "arguments", [[], ["chat", "--url", "http://x"], ["chat", "--interval", "0"], ["chat", "--minutes", "-1"]]
)
def test_contradictory_arguments_are_refused(arguments: list[str]) -> None:
    assert main(["record", *arguments]) == 2


def test_no_kubeconfig_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "chat", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "kubeconfig" in capsys.readouterr().err


def test_a_recording_reads_back_as_it_was_written(tmp_path: Path) -> None:
    scrapes = [
        Scrape(NOW, (POD,), {"uid-0": a_sample(NOW)}),
        Scrape(
            NOW + 15.0,
            (POD, replace(POD, name="chat-1", uid="uid-1", phase=PodPhase.PENDING, ready_at=None)),
            {},
        ),
    ]
    write_recording(tmp_path / "r.csv", scrapes)
    assert read_recording(tmp_path / "r.csv") == scrapes


def test_recorded_signals_replay_through_the_shipped_decisions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "service.yaml").write_text(SERVICE)
    (tmp_path / "profiles.yaml").write_text(PROFILE)
    scrapes = [
        Scrape(NOW + 15.0 * i, (POD,), {"uid-0": a_sample(NOW + 15.0 * i, finished=900.0 * i)})
        for i in range(12)
    ]
    write_recording(tmp_path / "r.csv", scrapes)
    given = ["-f", str(tmp_path / "service.yaml"), "--profile", str(tmp_path / "profiles.yaml")]
    out = tmp_path / "out.json"
    assert (
        main(
            [
                "simulate",
                *given,
                "--trace",
                str(tmp_path / "r.csv"),
                "--versus",
                "hpa:inflight=8",
                "--json",
                str(out),
            ]
        )
        == 0
    )
    assert "Capacity" in capsys.readouterr().out
    assert '"label": "replayed"' in out.read_text()


@pytest.mark.parametrize(
    ("head", "row", "message"),
    [
        (",".join(COLUMNS), "", "no scrapes"),
        (",".join((*COLUMNS, "mood")), "", "unknown columns mood"),
        ("at,pod,uid,phase,created_at,ready_at", "-1,a,b,Ready,0,0", "column at"),
        ("at,pod,uid,phase,created_at,ready_at", "5,a,b,Ready,0,0\n4,a,b,Ready,0,0", "goes back"),
        ("at,pod,uid,phase,created_at,ready_at", "5,a,b,Happy,0,0", "column phase"),
        ("at,pod,uid,phase,created_at,ready_at,running", "5,a,b,Ready,0,0,many", "column running"),
    ],
)
def test_a_spoilt_recording_is_refused_by_line_and_column(
    tmp_path: Path, head: str, row: str, message: str
) -> None:
    (tmp_path / "r.csv").write_text(f"{head}\n{row}\n")
    with pytest.raises(RecordingError, match=message):
        read_recording(tmp_path / "r.csv")
