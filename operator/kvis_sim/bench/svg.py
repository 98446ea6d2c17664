"""Small inline SVG plots: scatter of cost against attainment, and step lines over time. No scripts, no
fonts loaded.

Colours come from CSS variables that the page defines for light and for dark, so a plot follows the
reader's theme.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 34
TICKS = 5


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    colour: str  # a CSS variable without its dashes
    points: Sequence[tuple[float, float]]
    lines: bool = False
    steps: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    label: str
    low: float
    high: float
    suffix: str = ""

    def at(self, value: float, start: float, end: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return start + share * (end - start)

    def ticks(self) -> list[float]:
        return [self.low + (self.high - self.low) * i / TICKS for i in range(TICKS + 1)]


def rounded_up(value: float) -> float:
    """The next number that five equal steps divide nicely, for the end of an axis. 7.3 -> 10, 42 -> 50."""
    magnitude = 10.0 ** math.floor(math.log10(value)) if value > 0.0 else 1.0
    return next(
        step * magnitude
        for step in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5, 10.0)
        if step * magnitude >= value
    )


def plot(title: str, x: Axis, y: Axis, series: Sequence[Series]) -> str:
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        *_grid(x, y),
        *(element for one in series for element in _series(one, x, y)),
        "</svg>",
    ]
    keys = "".join(
        f'<span><i style="background:var(--{one.colour})"></i>{escape(one.name)}</span>' for one in series
    )
    caption = f"<figcaption>{escape(title)}</figcaption>"
    return f"<figure>{caption}{''.join(parts)}<div class=key>{keys}</div></figure>"


def _place(x: Axis, y: Axis, point: tuple[float, float]) -> tuple[float, float]:
    return x.at(point[0], LEFT, WIDTH - RIGHT), y.at(point[1], HEIGHT - BOTTOM, TOP)


def _grid(x: Axis, y: Axis) -> list[str]:
    found = []
    for value in x.ticks():
        across, _ = _place(x, y, (value, y.low))
        found.append(
            f'<line class=grid x1="{across:.1f}" x2="{across:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        )
        found.append(_text(across, HEIGHT - BOTTOM + 13, f"{value:.3g}{x.suffix}", "middle"))
    for value in y.ticks():
        _, down = _place(x, y, (x.low, value))
        found.append(f'<line class=grid x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down:.1f}" y2="{down:.1f}"/>')
        found.append(_text(LEFT - 5, down + 3, f"{value:.4g}{y.suffix}", "end"))
    found.append(_text((LEFT + WIDTH) / 2, HEIGHT - 5, x.label, "middle"))
    turned = f"translate(11 {HEIGHT / 2 - 10:.0f}) rotate(-90)"
    found.append(f'<text transform="{turned}" text-anchor="middle">{escape(y.label)}</text>')
    return found


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _series(series: Series, x: Axis, y: Axis) -> list[str]:
    places = [_place(x, y, point) for point in series.points]
    colour = f"var(--{series.colour})"
    if series.steps:
        places = _stairs(places)
    if series.lines or series.steps:
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in places)
        return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>']
    return [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.2" fill="{colour}"/>' for px, py in places]


def _stairs(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for across, down in places:
        if found:
            found.append((across, found[-1][1]))
        found.append((across, down))
    return found
