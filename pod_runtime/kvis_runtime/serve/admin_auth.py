"""Checks the bearer tokens of the admin port: EdDSA-signed, for this pod, at most 30 seconds ahead.

The pod holds only the public key, in a file that its ConfigMap updates in place; the file is read at each
call (a call comes every few seconds at most), so a new key needs no restart. Without the file, or without a
pod UID to name as audience, every call is refused.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import jwt

from kvis_runtime.serve.errors import ApiError

ALGORITHM: Final = "EdDSA"
MAX_LIFETIME_SECONDS: Final = 30.0
CLOCK_SKEW_SECONDS: Final = 5.0  # between the operator's node and this one


class AdminAuth:
    """Judge of admin tokens. `clock` gives Unix seconds."""

    def __init__(self, public_key_path: Path, pod_uid: str | None, *, clock: Callable[[], float]) -> None:
        self._public_key_path = public_key_path
        self._pod_uid = pod_uid
        self._clock = clock

    def check(self, authorization: str | None) -> None:
        """Raise a 401 unless `authorization` is a valid bearer token; the message says what is wrong."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise _unauthorized("an admin call needs 'Authorization: Bearer <token>'")
        if not self._pod_uid:
            raise _unauthorized("this pod does not know its UID, so no token can be for it")
        try:
            key = self._public_key_path.read_bytes()
        except OSError as error:
            raise _unauthorized("this pod has no public admin key") from error
        self._check_claims(token, key)

    def _check_claims(self, token: str, key: bytes) -> None:
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[ALGORITHM],
                audience=self._pod_uid,
                leeway=CLOCK_SKEW_SECONDS,
                options={
                    "require": ["exp", "aud"],
                    "strict_aud": True,
                    "verify_exp": False,
                    "verify_iat": False,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise _unauthorized(f"the token is not valid: {error}") from error
        expires = claims["exp"]
        if isinstance(expires, bool) or not isinstance(expires, int | float):
            raise _unauthorized("the token's exp is not a number")
        remaining = expires - self._clock()
        if remaining <= -CLOCK_SKEW_SECONDS:
            raise _unauthorized("the token has expired")
        if remaining > MAX_LIFETIME_SECONDS + CLOCK_SKEW_SECONDS:
            raise _unauthorized(
                f"the token lives too long; at most {MAX_LIFETIME_SECONDS:.0f} seconds are allowed"
            )


def _unauthorized(reason: str) -> ApiError:
    return ApiError(401, f"Refused: {reason}.", code="unauthorized", headers={"WWW-Authenticate": "Bearer"})
