"""Keys and tokens of the admin port."""

import time

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from serving.running import POD_UID


def public_pem(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def a_token(key: Ed25519PrivateKey, *, audience=POD_UID, lifetime: float = 20, **claims) -> str:
    return jwt.encode({"aud": audience, "exp": time.time() + lifetime, **claims}, key, algorithm="EdDSA")
