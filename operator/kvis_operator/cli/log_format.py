"""Log lines as `time level logger message key=value …`, the values being what a call passed as `extra`."""

import logging
import time
from typing import Final

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class KeyValueFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        line = f"{at} {record.levelname.lower():7} {record.name} {record.getMessage()}"
        extras = {k: v for k, v in vars(record).items() if k not in _STANDARD and not k.startswith("_")}
        line += "".join(f" {key}={_quoted(value)}" for key, value in extras.items())
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure(level: str) -> None:
    """Everything to standard error; kopf and the client library only from warnings on."""
    handler = logging.StreamHandler()
    handler.setFormatter(KeyValueFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in ("kopf", "aiohttp", "kubernetes", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # It reports each failed try with a traceback; the lock says the same in one line.
    logging.getLogger("kubernetes.aio.leaderelection").setLevel(logging.CRITICAL)


def _quoted(value: object) -> str:
    text = str(value)
    return f'"{text}"' if " " in text or not text else text
