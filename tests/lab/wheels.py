"""How uv, which installs Python packages, reaches them: as pip does on this machine.

People tell pip where packages come from, and uv does not read pip's settings. `settings` turns what
`pip config list` prints into uv's environment variables, for this machine's environments and for image builds.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from .layout import cache_folder

PIP_SECONDS: Final = 30.0


def cache() -> Path:
    """The folder that uv keeps downloads in, unpacked: what one environment has, the next one need not fetch."""
    return Path(os.environ.get("UV_CACHE_DIR") or cache_folder().parent / "uv").absolute()


def settings() -> dict[str, str]:
    """uv's variables for the indexes that pip uses here; empty where pip uses its own."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False)
    return parse(done.stdout)


def parse(pip_config: str) -> dict[str, str]:
    """uv's variables from the output of `pip config list`, in which the environment comes before the files."""
    lines = re.findall(r"^\S+\.(index-url|extra-index-url)='(.*)'$", pip_config, re.MULTILINE)
    found = {key: " ".join(value.replace("\\n", " ").split()) for key, value in reversed(lines)}
    names = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX"}
    return {names[key]: value for key, value in found.items() if value}
