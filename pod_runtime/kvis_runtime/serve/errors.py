"""Errors a client sees, in the shape of OpenAI's API.

    ApiError            any refusal, with its HTTP status
      bad_request       400, names the field at fault
      too_long          400, prompt and context in numbers
      unavailable       503, the pod leaves or its engine failed; another pod can answer
      overloaded        429, the queue is full

Raised by the handlers, the gate and the admin port; turned into a response in one place (`respond`).
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

KIND_BY_STATUS: Final[Mapping[int, str]] = {
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class ApiError(Exception):
    """A request refused or cut short. `param` is the field at fault, `code` what a program may test."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """Return the JSON body of the refusal; also the error frame of a stream."""
        fallback = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = KIND_BY_STATUS.get(self.status, fallback)
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def bad_request(message: str, *, param: str | None = None, code: str | None = None) -> ApiError:
    """Return a 400 that names the field."""
    return ApiError(400, message, param=param, code=code)


def too_long(*, prompt_tokens: int, max_tokens: int | None, context: int, param: str) -> ApiError:
    """Return the 400 of a prompt (and its asked output) that the context of `context` tokens cannot hold."""
    if prompt_tokens >= context or max_tokens is None:
        asked = f"your {param} holds {prompt_tokens} tokens"
        fit = f"shorten it to at most {context - 1} tokens"
    else:
        total = prompt_tokens + max_tokens
        asked = f"you asked for {total} ({prompt_tokens} in {param}, {max_tokens} to generate)"
        fit = f"with this {param} max_tokens can be at most {context - prompt_tokens}"
    message = f"This model's maximum context length is {context} tokens, but {asked}; {fit}."
    return bad_request(message, param=param, code="context_length_exceeded")


def unavailable(message: str, *, code: str) -> ApiError:
    """Return a 503 that also ends the connection, so that the client's next try reaches another pod."""
    return ApiError(503, message, code=code, headers={"Connection": "close", "Retry-After": "1"})


def overloaded(message: str, *, retry_after_seconds: int) -> ApiError:
    """Return a 429 with the time after which a place in the queue is likely."""
    headers = {"Retry-After": str(retry_after_seconds)}
    return ApiError(429, message, code="queue_full", headers=headers)


def respond(error: ApiError) -> Response:
    """Turn a refusal into its response."""
    content = json.dumps(error.body()).encode()
    return Response(content, error.status, headers=error.headers, media_type="application/json")
