"""The simulated 70B on 4 H100 against its measured prefill and decode times (Splitwise, 2023)."""

import csv
import random
from statistics import fmean, median

from kvis_sim.engine import NEVER, Replica
from kvis_sim.paged_kv import PagedKV
from kvis_sim.scenarios.machines import H100_TP4_70B, Law
from kvis_sim.sequences import EngineLimits, Sequence
from kvis_sim.traces import load_lines
from kvis_sim.workload import Request

MACHINE = ("llama2-70b", "h100-80gb", "4")


class Times:
    def __init__(self):
        self.first = []
        self.per_token = []
        self.plug_end = None

    def finished(self, sequence, now):
        if self.plug_end is None:
            self.plug_end = now
            return
        self.first.append(sequence.first_at - self.plug_end)
        self.per_token.append((now - sequence.first_at) / (sequence.request.output - 1))


def measured():
    """Median prefill and decode seconds by (prompt, batch, output)."""
    cells = {}
    for row in csv.DictReader(load_lines("splitwise_perf_model.csv.gz")):
        if (row["model"], row["hardware"], row["tensor_parallel"]) == MACHINE:
            shape = (int(row["prompt_size"]), int(row["batch_size"]), int(row["token_size"]))
            times = (float(row["prompt_time"]) / 1e3, float(row["token_time"]) / 1e3)
            cells.setdefault(shape, []).append(times)
    return {shape: tuple(map(median, zip(*times, strict=True))) for shape, times in cells.items()}


def simulated(prompt, batch, output):
    """The same experiment: the whole batch in one step, as that engine did. A plug lets the batch gather."""
    times = Times()
    law = H100_TP4_70B.law(Law.MAX_FORM)
    replica = Replica(law, PagedKV(10**6, 16), EngineLimits(256, 10**6), times, random.Random(0))
    replica.add(Sequence(Request(0.0, 1, 1)), 0.0)
    for _ in range(batch):
        replica.add(Sequence(Request(0.0, prompt, output)), 0.0)
    while replica.next_time < NEVER:
        replica.step_end()
    return fmean(times.first), fmean(times.per_token)


def error(column, shapes):
    """Mean absolute relative error over the table's cells."""
    table = measured()
    return fmean(abs(simulated(*shape)[column] / table[shape][column] - 1.0) for shape in shapes)


def test_prefill_times_are_reproduced_within_five_percent():
    # A prefill does not depend on how long the answer will be: one cell per prompt and batch.
    assert error(0, [shape for shape in measured() if shape[2] == 128]) <= 0.05


def test_decode_times_are_reproduced_within_five_percent():
    assert error(1, measured()) <= 0.05
