"""The admin port obeys signed calls for this pod only, and its calls act at once."""

import asyncio
import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from serving.running import POD_UID, a_server, an_api, an_engine
from serving.tokens import a_token, public_pem

LONG = {"ignore_eos": True, "max_tokens": 1500}
PATHS = [
    ("GET", "/kvis/state"),
    ("PUT", "/kvis/limits"),
    ("POST", "/kvis/drain"),
    ("POST", "/kvis/reset-prefix-cache"),
]


@pytest.fixture
def key(tmp_path):
    key = Ed25519PrivateKey.generate()
    (tmp_path / "public.pem").write_bytes(public_pem(key))
    return key


@pytest.fixture
def admin_server(tmp_path):
    return lambda engine=None, **settings: an_api(
        engine, admin_public_key=tmp_path / "public.pem", **settings
    )


async def call(server, token, method="GET", path="/kvis/state", **request):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return await server.admin.request(method, path, headers=headers, **request)


async def test_a_signed_call_is_answered(admin_server, key):
    async with admin_server() as server:
        state = (await call(server, a_token(key))).json()
    assert state["phase"] == "ready"
    assert state["blocks"]["total"] == sum(state["blocks"][kind] for kind in ("referenced", "cached", "free"))


@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_every_call_without_a_token_is_401(admin_server, key, method, path):
    async with admin_server() as server:
        response = await call(server, None, method, path)
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize(
    "claims",
    [
        {"audience": "another-pod"},
        {"audience": [POD_UID, "x"]},
        {"lifetime": -10},
        {"lifetime": 60},
        {"nbf": time.time() + 600},
    ],
)
async def test_a_token_for_another_pod_or_time_is_401(admin_server, key, claims):
    async with admin_server() as server:
        assert (await call(server, a_token(key, **claims))).status_code == 401


async def test_a_token_without_expiry_or_audience_is_401(admin_server, key):
    async with admin_server() as server:
        for claims in ({"aud": POD_UID}, {"exp": time.time() + 10}):
            assert (await call(server, jwt.encode(claims, key, algorithm="EdDSA"))).status_code == 401


async def test_a_token_of_another_key_is_401(admin_server, key):
    async with admin_server() as server:
        assert (await call(server, a_token(Ed25519PrivateKey.generate()))).status_code == 401


@pytest.mark.parametrize(
    "token", ["x", "a.b.c", "é", jwt.encode({"aud": POD_UID}, "k" * 32, algorithm="HS256")]
)
async def test_what_is_not_an_eddsa_token_is_401(admin_server, key, token):
    async with admin_server() as server:
        headers = {"Authorization": f"Bearer {token}".encode()}
        assert (await server.admin.get("/kvis/state", headers=headers)).status_code == 401


async def test_a_token_that_names_no_algorithm_is_401(admin_server, key):
    unsigned = jwt.encode({"aud": POD_UID, "exp": time.time() + 10}, None, algorithm="none")
    async with admin_server() as server:
        assert (await call(server, unsigned)).status_code == 401


async def test_without_a_key_file_every_call_is_401(tmp_path, admin_server):
    async with admin_server() as server:
        assert (await call(server, a_token(Ed25519PrivateKey.generate()))).status_code == 401


async def test_without_a_pod_uid_every_call_is_401(admin_server, key):
    async with admin_server(pod_uid=None) as server:
        assert (await call(server, a_token(key))).status_code == 401


async def test_a_new_key_holds_without_a_restart(tmp_path, admin_server, key):
    newer = Ed25519PrivateKey.generate()
    async with admin_server() as server:
        assert (await call(server, a_token(newer))).status_code == 401
        (tmp_path / "public.pem").write_bytes(public_pem(newer))
        assert (await call(server, a_token(newer))).status_code == 200
        assert (await call(server, a_token(key))).status_code == 401


async def test_the_admin_port_serves_no_models_and_the_public_port_no_admin(admin_server, key):
    async with admin_server() as server:
        assert (await call(server, a_token(key), path="/v1/models")).status_code == 404
        assert (await server.client.get("/kvis/state")).status_code == 404


async def set_limit(server, key, limit):
    return await call(server, a_token(key), "PUT", "/kvis/limits", json={"maxNumActiveSeqs": limit})


async def test_a_limit_changes_how_many_run(admin_server, key):
    async with admin_server(an_engine(step_seconds=0.002, max_num_seqs=8)) as server:
        assert (await set_limit(server, key, 2)).json() == {"maxNumActiveSeqs": 2, "maxNumSeqs": 8}
        asking = [asyncio.create_task(server.complete(**LONG)) for _ in range(6)]
        await server.until(lambda stats: (stats.running, stats.waiting) == (2, 4))
        await set_limit(server, key, 5)
        await server.until(lambda stats: (stats.running, stats.waiting) == (5, 1))
        await set_limit(server, key, 1)
        await asyncio.sleep(0.05)
        assert server.runtime.engine.snapshot.stats.running == 5  # a lower cap cancels nothing
        for task in asking:
            task.cancel()


@pytest.mark.parametrize("limit", [0, -1, 9, "4", 2.5, None, True])
async def test_a_limit_outside_the_bounds_is_400(admin_server, key, limit):
    async with admin_server() as server:
        error = (await set_limit(server, key, limit)).json()["error"]
    assert error["param"] == "maxNumActiveSeqs"


async def test_a_limit_above_the_ceiling_names_the_ceiling(admin_server, key):
    async with admin_server() as server:
        response = await set_limit(server, key, 9)
    assert response.status_code == 400
    assert "1 to 8, this pod's maxNumSeqs" in response.json()["error"]["message"]


@pytest.mark.slow
async def test_a_long_step_does_not_hold_up_the_answer_to_a_new_limit(admin_server, key):
    async with admin_server(an_engine(step_seconds=3)) as server:
        asking = asyncio.create_task(server.complete(max_tokens=1))
        await asyncio.sleep(0.2)
        async with asyncio.timeout(2):
            assert (await set_limit(server, key, 3)).json()["maxNumActiveSeqs"] == 3
        await asking
        await server.until(lambda stats: stats.cap == 3)


async def test_resetting_the_prefix_cache_empties_it(admin_server, key):
    async with admin_server() as server:
        await server.complete()
        assert server.runtime.engine.snapshot.stats.blocks_cached > 0
        await call(server, a_token(key), "POST", "/kvis/reset-prefix-cache")
        assert server.runtime.engine.snapshot.stats.blocks_cached == 0


async def test_a_drain_makes_unready_and_refuses_but_the_process_stays(tmp_path, key):
    async with a_server(an_engine(step_seconds=0.001), admin_public_key=tmp_path / "public.pem") as server:
        running = asyncio.create_task(server.complete(ignore_eos=True, max_tokens=300))
        await server.until(lambda stats: stats.running == 1)
        assert (await call(server, a_token(key), "POST", "/kvis/drain")).json()["inFlight"] == 1
        assert (await server.client.get("/ready")).status_code == 503
        await asyncio.sleep(0.05)
        assert (await server.complete()).status_code == 503
        assert (await call(server, a_token(key))).json()["phase"] == "refusing"
        assert (await running).status_code == 200
        assert not server.ended.done()
