"""The live table: the last looks, in place on a terminal, a line each ten seconds elsewhere."""

import sys

from rich.console import Console
from rich.live import Live
from rich.table import Table

from demo.load import Tally
from demo.watch import Look

ROWS = 12
LINE_EVERY_SECONDS = 10.0


class LiveTable:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=2) if sys.stdout.isatty() else None
        self._last_line = -LINE_EVERY_SECONDS
        self._shown: Look | None = None

    def __enter__(self) -> "LiveTable":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, phase: str, looks: list[Look], tally: Tally) -> None:
        if not looks:
            return
        if self._live:
            self._live.update(_table(phase, looks[-ROWS:], tally))
            return
        look = looks[-1]
        changed = self._shown is None or (look.replicas, dict(look.caps), look.decision) != (
            self._shown.replicas,
            dict(self._shown.caps),
            self._shown.decision,
        )
        if changed or look.at - self._last_line >= LINE_EVERY_SECONDS:
            self._last_line, self._shown = look.at, look
            self._console.print(f"  {_line(phase, look, tally)}", highlight=False, soft_wrap=True)


def _cells(look: Look) -> tuple[str, ...]:
    return (
        f"{look.at:5.0f}s",
        _text(look.replicas),
        str(look.ready),
        _percent(look.hit_rate),
        _percent(look.kv_usage),
        _text(look.waiting),
        "/".join(str(cap) for _, cap in sorted(look.caps.items())) or "-",
        look.decision,
    )


def _table(phase: str, looks: list[Look], tally: Tally) -> Table:
    title = f"{phase}: {tally.sent} sent, {tally.ok} ok, {tally.in_flight} in flight, {tally.lost} lost"
    table = Table(title=title, title_justify="left")
    for heading in ("time", "replicas", "ready", "hit rate", "KV used", "waiting", "cap", "last decision"):
        table.add_column(heading, justify="left" if heading == "last decision" else "right")
    for look in looks:
        table.add_row(*_cells(look))
    return table


def _line(phase: str, look: Look, tally: Tally) -> str:
    at, replicas, ready, hits, used, waiting, cap, decision = _cells(look)
    return (
        f"{at} {phase:9} replicas {replicas} ready {ready}  hit {hits:>4}  KV {used:>4}  waiting {waiting:>3}"
        f"  cap {cap:>5}  ok {tally.ok}/{tally.sent} lost {tally.lost}  {decision}"
    )


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
