"""Chooses the next token of each sampled row: greedy, or temperature and top-p with a request's own seed.

Each request draws one number per token from its own generator, so a seeded request gives the same tokens
in any batch, and again after a preemption.
"""

import torch

from kvis_runtime.engine.request import Sequence

CANDIDATES = 256
"""Tokens looked at first for top-p; the whole vocabulary is sorted only where they hold too little mass."""


def sample(logits: torch.Tensor, sequences: list[Sequence]) -> list[int]:
    """One token per row of logits [rows, vocabulary]; row i belongs to sequences[i]."""
    tokens: list[int] = torch.argmax(logits, dim=-1).tolist()
    for row, sequence in enumerate(sequences):
        if sequence.request.params.temperature > 0:
            tokens[row] = _draw(logits[row], sequence)
    return tokens


def _draw(logits: torch.Tensor, sequence: Sequence) -> int:
    params = sequence.request.params
    probabilities = torch.softmax(logits.float() / params.temperature, dim=-1)
    uniform = sequence.random.random()
    if params.top_p == 1.0:
        return _pick(torch.cumsum(probabilities, dim=-1), uniform)
    mass, ids = torch.topk(probabilities, min(CANDIDATES, probabilities.numel()))
    if float(mass.sum()) < params.top_p:
        mass, ids = torch.sort(probabilities, descending=True)
    cumulative = torch.cumsum(mass, dim=-1)
    # The nucleus is the smallest set of likeliest tokens whose mass reaches top_p.
    kept = int(torch.searchsorted(cumulative, params.top_p)) + 1
    return int(ids[_pick(cumulative[:kept], uniform)].item())


def _pick(cumulative: torch.Tensor, uniform: float) -> int:
    """The first index whose cumulative mass exceeds `uniform` of the total."""
    target = uniform * float(cumulative[-1])
    index = int(torch.searchsorted(cumulative, target, right=True))
    return min(index, int(cumulative.numel()) - 1)
