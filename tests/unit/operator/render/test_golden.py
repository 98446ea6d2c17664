"""What a service is rendered to, as files to review: `--update-golden` rewrites them."""

import pathlib
from typing import Any

import pytest
import yaml

from kvis_operator.render.objects import render
from service_builders import a_profile, a_service, wanted

GOLDEN = pathlib.Path(__file__).parents[3] / "golden" / "render"
CASES = {
    "minimal": wanted(replicas=1),
    "fixed": wanted(
        a_service(
            model={"uri": "bundled://smollm2-135m", "servedName": "smollm2", "maxLength": 2048},
            kvCache={"dtype": "bfloat16", "blockSize": 32, "memory": "256Mi", "prefixCaching": False},
            batching={"maxNumSeqs": 24, "maxNumBatchedTokens": 256},
        ),
        replicas=3,
        operator_namespace="kvis-system",
    ),
    "claim-on-accelerator": wanted(
        a_service("own", model={"uri": "pvc://models/llama/tiny"}),
        profile=a_profile(
            accelerator={"resource": "nvidia.com/gpu", "count": 1, "memory": "80Gi"},
            surge=False,
            nodeSelector={"pool": "gpu"},
            tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        ),
        replicas=2,
    ),
}


class _Plain(yaml.SafeDumper):
    """No anchors: each object is read by itself."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


@pytest.mark.parametrize("name", CASES)
def test_a_service_renders_as_reviewed(name: str, update_golden: bool) -> None:
    text = yaml.dump_all(render(CASES[name]), Dumper=_Plain, sort_keys=False, width=110)
    path = GOLDEN / f"{name}.yaml"
    if update_golden:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text
