"""Admin calls: a token for exactly one pod and half a minute, and every refusal told."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import jwt
import pytest
import pytest_asyncio
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kvis_operator.cluster.runtime_admin import AdminCallError, AdminKey, AdminKeyError, RuntimeAdmin


@pytest.fixture
def key() -> AdminKey:
    return AdminKey(Ed25519PrivateKey.generate())


@pytest_asyncio.fixture
async def pod(key: AdminKey) -> AsyncIterator[str]:
    """A pod with the UID `uid-0` that checks tokens and caps at 8."""

    async def limits(request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            jwt.decode(token, key.public_pem, algorithms=["EdDSA"], audience="uid-0")
        except jwt.InvalidTokenError as error:
            return web.json_response({"error": str(error)}, status=401)
        wanted = (await request.json())["maxNumActiveSeqs"]
        return web.json_response({"maxNumActiveSeqs": min(8, wanted), "maxNumSeqs": 8})

    app = web.Application()
    app.router.add_put("/kvis/limits", limits)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest_asyncio.fixture
async def admin(key: AdminKey) -> AsyncIterator[RuntimeAdmin]:
    caller = RuntimeAdmin(key)
    yield caller
    await caller.close()


async def test_a_cap_is_set_and_what_was_applied_is_returned(admin: RuntimeAdmin, pod: str) -> None:
    assert await admin.set_cap(pod, "uid-0", 5) == 5
    assert await admin.set_cap(pod, "uid-0", 50) == 8


async def test_a_token_for_one_pod_is_no_good_at_another(admin: RuntimeAdmin, pod: str) -> None:
    with pytest.raises(AdminCallError, match="401"):
        await admin.set_cap(pod, "uid-1", 5)


async def test_a_pod_that_is_gone_is_an_error_and_no_crash(admin: RuntimeAdmin) -> None:
    with pytest.raises(AdminCallError, match="failed"):
        await admin.set_cap("http://127.0.0.1:1", "uid-0", 5)


def test_a_token_is_short_lived(key: AdminKey) -> None:
    now = time.time()
    claims = jwt.decode(key.token("uid-0", now=now), key.public_pem, algorithms=["EdDSA"], audience="uid-0")
    assert claims["exp"] - now <= 30


def test_a_missing_key_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AdminKeyError, match=r"absent\.pem"):
        AdminKey.load(tmp_path / "absent.pem")


def test_a_key_of_another_kind_is_refused_with_the_right_one(tmp_path: Path) -> None:
    path = tmp_path / "rsa.pem"
    path.write_bytes(
        rsa.generate_private_key(65537, 2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    with pytest.raises(AdminKeyError, match="Ed25519"):
        AdminKey.load(path)
