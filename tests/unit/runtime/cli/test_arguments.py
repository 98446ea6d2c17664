"""Flags are read in both spellings; a wrong one is named together with what would work."""

import pytest

from kvis_kv import flags
from kvis_runtime.cli.arguments import UsageError, parse
from kvis_runtime.cli.serve import engine_config, serve_settings
from serving.codec import a_model_folder


@pytest.fixture
def model(tmp_path):
    return a_model_folder(tmp_path / "tiny")


@pytest.fixture
def serve(model):
    return lambda *arguments: parse(["serve", f"--model={model}", *arguments])


def config_of(arguments):
    return engine_config(arguments)


def settings_of(arguments):
    return serve_settings(arguments, engine_config(arguments), "uid")


def test_both_spellings_of_a_flag_are_read(serve):
    assert serve("--max-num-seqs=4").max_num_seqs == serve("--max-num-seqs", "4").max_num_seqs == 4


def test_every_flag_the_operator_may_render_is_known(serve):
    values = {
        flags.SERVED_MODEL_NAME: "tiny",
        flags.DTYPE: "float32",
        flags.KV_CACHE_DTYPE: "auto",
        flags.KV_CACHE_MEMORY_BYTES: 1 << 28,
        flags.BLOCK_SIZE: 16,
        flags.ENABLE_PREFIX_CACHING: "true",
        flags.MAX_NUM_SEQS: 8,
        flags.MAX_NUM_BATCHED_TOKENS: 512,
        flags.MAX_NUM_QUEUED_REQS: 100,
        flags.MAX_MODEL_LEN: 1024,
        flags.HOST: "0.0.0.0",
        flags.PORT: 8000,
        flags.ADMIN_PORT: 8001,
        flags.ADMIN_PUBLIC_KEY: "/etc/kvis/admin/public.pem",
        flags.SHUTDOWN_TIMEOUT: 120,
        flags.ENDPOINT_PROPAGATION: 5,
        flags.THREADS: 2,
    }
    every = {value for name, value in vars(flags).items() if name.isupper() and str(value).startswith("--")}
    assert set(values) | {flags.MODEL} == every
    settings_of(serve(*(f"{flag}={value}" for flag, value in values.items())))


@pytest.mark.parametrize(
    ("flag", "works"),
    [
        ("--block-size=7", "8 would work"),
        ("--block-size=0", "would work"),
        ("--dtype=float8", "float32, bfloat16"),
        ("--kv-cache-dtype=int3", "auto, "),
        ("--max-num-seqs=0", "at least 1"),
        ("--max-num-seqs=four", "a whole number of at least 1"),
        ("--max-num-seqs=1_0", "a whole number of at least 1"),
        ("--port=70000", "1 to 65535"),
        ("--enable-prefix-caching=yes", "true or false"),
        ("--shutdown-timeout=-1", "at least 0"),
        ("--shutdown-timeout=nan", "at least 0"),
        ("--max-model-len=1", "at least 2"),
        ("--max-num-batched-tokens=1", "16 would work"),
        ("--admin-port=8000", "give another one"),
    ],
)
def test_a_wrong_value_names_its_flag_and_what_would_work(serve, flag, works):
    with pytest.raises(UsageError, match=works) as error:
        settings_of(serve(flag))
    assert flag.partition("=")[0] in str(error.value)


@pytest.mark.parametrize("argument", ["--max-num-seq=4", "--unknown", "stray"])
def test_an_unknown_or_shortened_flag_is_refused_by_name(serve, argument):
    with pytest.raises(UsageError, match=argument.partition("=")[0]):
        serve(argument)


def test_a_folder_without_model_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"--model: .*no config\.json"):
        config_of(parse(["serve", f"--model={tmp_path}"]))


def test_the_model_is_named_after_its_folder(serve):
    assert settings_of(serve()).served_name == "tiny"


def test_the_queue_grows_with_the_batch(serve):
    assert settings_of(serve("--max-num-seqs=4")).max_num_queued_reqs == 256
    assert settings_of(serve("--max-num-seqs=64")).max_num_queued_reqs == 512
    assert settings_of(serve("--max-num-queued-reqs=7")).max_num_queued_reqs == 7


def test_the_cache_stores_the_weights_dtype_unless_told_otherwise(serve):
    assert settings_of(serve("--dtype=bfloat16")).cache_dtype == "bfloat16"
    assert settings_of(serve("--kv-cache-dtype=bfloat16")).cache_dtype == "bfloat16"


def test_threads_default_to_what_the_container_may_use(serve):
    assert config_of(serve()).threads >= 1
    assert config_of(serve("--threads=3")).threads == 3
