"""Reading traces: what is kept, and what a broken file is told."""

import gzip
import json

import pytest

from kvis_sim import trace_formats
from kvis_sim.traces import NAMES, load_clients, load_rates, load_trace, read_trace
from kvis_sim.workload import TraceError

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens"
OURS = "timestamp_ms,prompt_tokens,output_tokens"


def mooncake_line(**changes):
    row = {"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [1, 2, 3]}
    return json.dumps(row | changes)


@pytest.mark.parametrize(
    ("name", "count", "seconds"),
    [
        ("azure-conv", 19366, 3502),
        ("azure-code", 8819, 3436),
        ("mooncake-conversation", 12031, 3537),
        ("mooncake-synthetic", 3993, 1022),
        ("aibrix", 2026, 456),
    ],
)
def test_bundled_traces_have_their_published_size(name, count, seconds):
    trace = load_trace(name)
    assert (len(trace), round(trace.duration)) == (count, seconds)


def test_every_bundled_trace_loads():
    assert all(len(load_trace(name)) > 1000 for name in NAMES)


def test_bundled_rates_and_clients_load():
    assert len(load_rates("language/m-large")) == 2016
    assert {window.distribution for window in load_clients("m-small")} == {"Gamma", "Weibull"}


def test_mooncake_keeps_ids_of_full_blocks_only():
    trace = trace_formats.mooncake([mooncake_line()], "f")
    assert (trace.block_size, trace.blocks[0]) == (512, (1, 2))


def test_times_start_at_the_first_request():
    rows = [OURS, "6011,178,8", "6917,258,40"]
    assert list(trace_formats.aibrix(rows, "f").times) == pytest.approx([0.0, 0.906])


def test_a_recorded_length_of_zero_counts_as_one():
    assert trace_formats.aibrix([OURS, "1,10,0"], "f").outputs[0] == 1


def test_agentic_sessions_do_not_share_ids():
    session = {
        "block_size": 4,
        "requests": [{"t": 0.0, "type": "s", "in": 9, "out": 2, "hash_ids": [1, 2, 3]}],
    }
    trace = trace_formats.agentic([json.dumps(session)] * 2, "f", sessions_per_second=1.0)
    assert len(set(trace.blocks[0]) | set(trace.blocks[1])) == 4


def test_requests_of_sub_agents_are_placed_after_their_parent_began():
    nested = {"t": 5.0, "type": "subagent", "requests": [{"t": 1.0, "type": "s", "in": 9, "out": 2}]}
    first = {"t": 0.0, "type": "s", "in": 9, "out": 2}
    line = json.dumps({"block_size": 4, "requests": [first, nested]})
    assert list(trace_formats.agentic([line], "f", sessions_per_second=1.0).times) == [0.0, 6.0]


@pytest.mark.parametrize(
    ("reader", "lines", "words"),
    [
        (trace_formats.azure, [], "f: the file is empty; expected the columns TIMESTAMP"),
        (trace_formats.azure, [AZURE], "f: no requests in the file"),
        (
            trace_formats.azure,
            ["a,b"],
            "line 1: columns TIMESTAMP, ContextTokens, GeneratedTokens are missing",
        ),
        (
            trace_formats.azure,
            [AZURE, "yesterday,1,1"],
            "line 2, column TIMESTAMP: 'yesterday' is not a date",
        ),
        (
            trace_formats.azure,
            [AZURE, "2023-11-16 18:17:04,1,1", "2023-11-16 18:17:03,1,1"],
            "line 3, column TIMESTAMP: the time goes back by 1 s; sort the file by time",
        ),
        (trace_formats.aibrix, [OURS, "-5,1,1"], "line 2, column timestamp_ms: -5 is below 0"),
        (trace_formats.aibrix, [OURS, "5,-1,1"], "line 2, column prompt_tokens: -1 is below 0"),
        (trace_formats.aibrix, [OURS, "5,many,1"], "column prompt_tokens: 'many' is not a number"),
        (trace_formats.aibrix, [OURS, "5,nan,1"], "column prompt_tokens: nan is below 0, or not finite"),
        (trace_formats.aibrix, [OURS, "5,1"], "column output_tokens: None is not a number"),
        (trace_formats.mooncake, ["{"], "line 1: not JSON"),
        (trace_formats.mooncake, ["[]"], "line 1: expected a JSON object"),
        (trace_formats.mooncake, ['{"timestamp": 1}'], "line 1, column hash_ids: missing"),
        (
            trace_formats.mooncake,
            [mooncake_line(timestamp=2000), mooncake_line(timestamp=1000)],
            "line 2, column timestamp: the time goes back by 1 s",
        ),
        (
            trace_formats.clients,
            ["client,t_s,rate_rps,cv,dist,p1,p2", "0,0,1,1,Normal,1,1"],
            "'Normal' is unknown",
        ),
    ],
)
def test_a_broken_file_is_told_where_and_why(reader, lines, words):
    with pytest.raises(TraceError, match=words.replace("(", r"\(").replace("[", r"\[")):
        reader(lines, "f")


def test_an_unknown_pool_names_the_known_ones():
    with pytest.raises(TraceError, match="no pool 'x'; there are a"):
        trace_formats.rates(["pool,t_s,rate_rps", "a,0,1"], "f", "x")


def test_an_unknown_trace_names_the_known_ones():
    with pytest.raises(TraceError, match="no trace named 'azure'; there are agentic, aibrix"):
        load_trace("azure")


def test_lengths_without_times_cannot_be_replayed():
    with pytest.raises(TraceError, match="arxiv has no times"):
        load_trace("arxiv").requests()


@pytest.mark.parametrize("zipped", [False, True])
def test_a_users_file_is_recognised_by_its_content(tmp_path, zipped):
    path = tmp_path / "trace.csv"
    text = f"{OURS}\n0,10,20\n1000,30,40\n".encode()
    path.write_bytes(gzip.compress(text) if zipped else text)
    trace = read_trace(path)
    assert list(trace.requests())[1][:3] == (1.0, 30, 40)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "trace.csv: the file is empty"), ("when,what\n1,2\n", "line 1: columns when,what are unknown")],
)
def test_a_users_file_of_no_known_format_is_refused(tmp_path, text, words):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(TraceError, match=words):
        read_trace(path)
