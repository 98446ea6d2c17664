"""A byte-level codec with control tokens and a chat template: one token per byte, no model folder needed."""

import json

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from kvis_runtime.serve.tokens import TextCodec

CONTROL_TOKENS = ("<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def a_tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(
        models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in CONTROL_TOKENS]
    )
    return tokenizer


def a_codec(template: str | None = CHAT_TEMPLATE) -> TextCodec:
    return TextCodec(a_tokenizer().to_str(), {"eos_token": "<|im_end|>"}, template)


def a_model_folder(path):
    """Write what the server reads of a model folder."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text("{}")
    (path / "tokenizer.json").write_text(a_tokenizer().to_str())
    (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": CHAT_TEMPLATE}))
    return path
