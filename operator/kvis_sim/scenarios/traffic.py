"""Where a scenario's requests come from: recorded traces, or rates with lengths drawn from recorded ones.

Time is never compressed: a trace is replayed at its own pace, several loops of it or several copies at
once. Rates are thinned to the fleet's size instead. All draws come from the generator passed in.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kvis_sim.traces import RatePoint, load_rates, load_trace
from kvis_sim.workload import Request, SharedPrefixes, Trace, delayed, merged, thin, until

ID_STRIDE = 1 << 32  # keeps the prefix ids of different copies and loops apart


@dataclass(frozen=True, slots=True)
class Replay:
    """A recorded trace, `loops` times in a row, `copies` at once (same shape, times shifted by up to
    `jitter` s).
    """

    trace: str
    copies: int = 1
    loops: int = 1
    keep: float = 1.0
    jitter: float = 5.0

    def requests(self, rng: random.Random, *, duration: float) -> Iterator[Request]:
        trace = load_trace(self.trace)
        streams = [self._copy(trace, copy, rng) for copy in range(self.copies)]
        stream = merged(streams) if len(streams) > 1 else streams[0]
        if self.keep < 1.0:
            stream = thin(stream, self.keep, random.Random(rng.random()))
        return until(stream, duration)

    def _copy(self, trace: Trace, copy: int, rng: random.Random) -> Iterator[Request]:
        shift = 0.0 if copy == 0 else rng.uniform(0.0, self.jitter)
        period = trace.duration + 1.0
        for loop in range(self.loops):
            offset = (copy * self.loops + loop) * ID_STRIDE
            for request in delayed(trace.requests(), shift + loop * period):
                yield request if offset == 0 else _renamed(request, offset)


def _renamed(request: Request, offset: int) -> Request:
    return request._replace(blocks=tuple(block + offset for block in request.blocks))


@dataclass(frozen=True, slots=True)
class Lengths:
    """Prompt and output lengths drawn in pairs from a trace; `output_times` makes answers longer by a
    factor.
    """

    trace: str
    output_times: float = 1.0
    fixed: tuple[int, int] | None = None  # (prompt, output) means of two log-normals instead of a trace

    def sampler(self) -> "Sampler":
        if self.fixed is not None:
            return LogNormalSampler(*self.fixed)
        trace = load_trace(self.trace)
        outputs = [max(1, round(tokens * self.output_times)) for tokens in trace.outputs]
        return PairSampler(trace.prompts, outputs)


@dataclass(frozen=True, slots=True)
class PairSampler:
    prompts: Sequence[int]
    outputs: Sequence[int]

    def draw(self, rng: random.Random) -> tuple[int, int]:
        index = rng.randrange(len(self.prompts))
        return self.prompts[index], self.outputs[index]


@dataclass(frozen=True, slots=True)
class LogNormalSampler:
    """Lengths of the given means with a log-standard deviation of 0.5."""

    prompt: int
    output: int

    def draw(self, rng: random.Random) -> tuple[int, int]:
        mu = -0.5 * 0.5**2
        return (
            max(1, round(self.prompt * rng.lognormvariate(mu, 0.5))),
            max(1, round(self.output * rng.lognormvariate(mu, 0.5))),
        )


Sampler = PairSampler | LogNormalSampler


@dataclass(frozen=True, slots=True)
class Segment:
    """`seconds` of Poisson arrivals whose rate goes from `rate` to `rate_end` (None: stays) requests per
    second.
    """

    seconds: float
    rate: float
    lengths: Lengths
    rate_end: float | None = None


@dataclass(frozen=True, slots=True)
class Segments:
    """Segments one after the other; `noise` scales each minute's rate by a uniform factor in 1 +/- noise."""

    parts: tuple[Segment, ...]
    noise: float = 0.0
    prefixes: SharedPrefixes | None = None

    def requests(self, rng: random.Random, *, duration: float) -> Iterator[Request]:
        stream = until(self._arrivals(rng), duration)
        return stream if self.prefixes is None else self.prefixes.apply(stream, random.Random(rng.random()))

    def _arrivals(self, rng: random.Random) -> Iterator[Request]:
        start = 0.0
        for part in self.parts:
            sampler = part.lengths.sampler()
            end_rate = part.rate if part.rate_end is None else part.rate_end
            points = [(0.0, part.rate), (part.seconds, end_rate)]
            for at in _poisson(points, rng, noise=self.noise):
                yield Request(start + at, *sampler.draw(rng))
            start += part.seconds


@dataclass(frozen=True, slots=True)
class RecordedRates:
    """A recorded day of 10-minute rates at real time, scaled so that its highest rate is `peak` requests
    per second.
    """

    pool: str
    day: int
    peak: float
    lengths: Lengths

    def requests(self, rng: random.Random, *, duration: float) -> Iterator[Request]:
        points = _day(load_rates(self.pool), self.day)
        highest = max(point.rate for point in points)
        scaled = [(point.at - points[0].at, point.rate * self.peak / highest) for point in points]
        scaled.append((86_400.0, scaled[-1][1]))
        sampler = self.lengths.sampler()
        return until((Request(at, *sampler.draw(rng)) for at in _poisson(scaled, rng)), duration)


def _day(rates: Sequence[RatePoint], day: int) -> list[RatePoint]:
    """One day's windows; a zero rate is a gap of the recording and keeps the rate before it."""
    found: list[RatePoint] = []
    for point in rates:
        if int(point.at // 86_400) != day:
            continue
        gap = point.rate <= 0.0 and found
        found.append(RatePoint(point.at, found[-1].rate) if gap else point)
    if not found:
        raise ValueError(f"no recorded rates for day {day}")
    return found


def _poisson(
    points: Sequence[tuple[float, float]], rng: random.Random, *, noise: float = 0.0
) -> Iterator[float]:
    """Arrival times of a Poisson process whose rate is linear between points, by thinning at each piece's
    maximum.
    """
    for (start, first), (end, last) in pairwise(points):
        ceiling = max(first, last) * (1.0 + noise)
        if ceiling <= 0.0:
            continue
        at = start
        factors = [rng.uniform(1.0 - noise, 1.0 + noise) for _ in range(math.ceil((end - start) / 60.0))]
        while (at := at + rng.expovariate(ceiling)) < end:
            share = (at - start) / (end - start)
            rate = (first + (last - first) * share) * factors[int((at - start) // 60.0)]
            if rng.random() * ceiling < rate:
                yield at


Traffic = Replay | Segments | RecordedRates
