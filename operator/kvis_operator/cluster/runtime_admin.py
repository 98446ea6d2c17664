"""Calls to a pod's admin port, each with a token of its own for exactly that pod.

The token is an EdDSA JWT that names the pod's UID and is good for 30 s; the pod knows only the public key.
The private key is a file mounted into the operator's pod, so no right to read Secrets is needed. Without a
key there are no admin calls, and tuning says so.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

TOKEN_SECONDS = 30
CALL_SECONDS = 5.0
MAX_ANSWER_BYTES = 1 << 16


class AdminCallError(Exception):
    """The pod did not answer, or refused; the message says which."""


class AdminKeyError(Exception):
    """The key file is missing or holds no Ed25519 private key."""


@dataclass(frozen=True, slots=True)
class AdminKey:
    private: Ed25519PrivateKey

    @classmethod
    def load(cls, path: Path) -> "AdminKey":
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise AdminKeyError(f"{path} holds no readable PEM private key: {error}") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise AdminKeyError(f"{path} must hold an Ed25519 private key, it holds a {type(key).__name__}")
        return cls(key)

    @property
    def public_pem(self) -> str:
        """What the pods are given to check our tokens with."""
        return (
            self.private.public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
            .decode()
        )

    def token(self, pod_uid: str, *, now: float) -> str:
        claims = {"aud": pod_uid, "iat": int(now), "exp": int(now) + TOKEN_SECONDS}
        return jwt.encode(claims, self.private, algorithm="EdDSA")


class RuntimeAdmin:
    """`base` is the pod's admin URL without a path, such as http://10.244.0.7:8001."""

    def __init__(self, key: AdminKey) -> None:
        self._key = key
        self._session = aiohttp.ClientSession(
            trust_env=False, timeout=aiohttp.ClientTimeout(total=CALL_SECONDS)
        )

    async def close(self) -> None:
        await self._session.close()

    async def state(self, base: str, pod_uid: str) -> dict[str, Any]:
        return await self._call("GET", base, "/kvis/state", pod_uid)

    async def set_cap(self, base: str, pod_uid: str, cap: int) -> int:
        """Set the live cap on running sequences; returns the cap that the pod applied."""
        answer = await self._call("PUT", base, "/kvis/limits", pod_uid, {"maxNumActiveSeqs": cap})
        applied = answer.get("maxNumActiveSeqs")
        if not isinstance(applied, int):
            raise AdminCallError(f"PUT /kvis/limits answered without maxNumActiveSeqs: {answer}")
        return applied

    async def drain(self, base: str, pod_uid: str) -> None:
        await self._call("POST", base, "/kvis/drain", pod_uid)

    async def _call(
        self, method: str, base: str, path: str, pod_uid: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._key.token(pod_uid, now=time.time())}"}
        try:
            async with self._session.request(
                method, base + path, json=body, headers=headers, allow_redirects=False
            ) as response:
                text = await response.content.read(MAX_ANSWER_BYTES)
                if response.status >= 400:
                    detail = text[:200].decode("utf-8", "replace")
                    raise AdminCallError(f"{method} {path} was refused with {response.status}: {detail}")
                answer = json.loads(text) if text else {}
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise AdminCallError(f"{method} {path} failed: {error or type(error).__name__}") from error
        return answer if isinstance(answer, dict) else {}
