"""A model that lies on a claim of the service's own namespace, as a user's own weights do."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import lab
from demo import steps
from e2e.field import Field

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

MODEL = Path(__file__).parents[2] / "build" / "models" / "smollm2-135m"
CLAIM, FOLDER, NAME = "models", "llama/tiny", "own"


@pytest.fixture
def claim(field: Field, tmp_path: Path) -> Iterator[str]:
    """A claim with a model in one of its folders; its volume is a folder of the node, which is this machine."""
    if field.cluster.source is not lab.Source.LAB:
        pytest.skip("only the lab's node is this machine")
    shutil.copytree(MODEL, tmp_path / "volume" / FOLDER)
    volume = f"{field.namespace}-{CLAIM}"
    field.create(a_volume(volume, tmp_path / "volume", namespace=field.namespace))
    field.create(a_claim(volume))
    yield CLAIM
    field.kubectl("delete", "persistentvolume", volume, "--wait=false")


def a_volume(name: str, folder: Path, *, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadOnlyMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "hostPath": {"path": str(folder), "type": "Directory"},
            "claimRef": {"namespace": namespace, "name": CLAIM},
        },
    }


def a_claim(volume: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM},
        "spec": {
            "accessModes": ["ReadOnlyMany"],
            "storageClassName": "",
            "volumeName": volume,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


async def test_a_model_on_a_claim_is_served_under_its_own_name(field: Field, claim: str) -> None:
    field.apply("chat", model={"uri": f"pvc://{claim}/{FOLDER}", "servedName": NAME, "maxLength": 2048})
    url = await field.serving("chat")
    async with httpx.AsyncClient(timeout=30) as http:
        models = (await http.get(f"{url}/v1/models")).json()["data"]
    assert [each["id"] for each in models] == [NAME]
    assert "Paris" in await steps.ask(url, model=NAME)
