"""Plots as SVG, made on the server: stacked bars over time. Colours are classes, so that they follow the theme."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup, escape

_WIDTH, _HEIGHT = 440, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 8, 10, 24
_WIDEST = 40.0
"""Of a bar, where there are few."""
_COLOURS = 7
"""Classes `series-0` and so on in the style sheet."""


def plot_bars(title: str, labels: Sequence[str], series: Mapping[str, Sequence[float]]) -> Markup:
    """A bar for each label, in which the series are stacked."""
    totals = [sum(values[place] for values in series.values()) for place in range(len(labels))]
    most = _round_up(max(totals, default=0))
    about = escape(_describe(title, series))
    parts = [f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{about}">', *_draw_axis(most)]
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(labels))
    width = min(step * 0.8, _WIDEST)
    for place, label in enumerate(labels):
        base = 0.0
        left = _LEFT + (place + 0.5) * step - width / 2
        for number, (name, values) in enumerate(series.items()):
            value = values[place]
            if value > 0:
                low, high = _y(base, most), _y(base + value, most)
                parts.append(
                    f'<rect class="series-{number % _COLOURS}" x="{left:.1f}" y="{high:.1f}" '
                    f'width="{width:.1f}" height="{max(0.5, low - high):.1f}">'
                    f"<title>{escape(label)}, {escape(name)}: {_format(value)}</title></rect>"
                )
            base += value
    for place in _choose_labels(len(labels)):
        middle = _LEFT + (place + 0.5) * step
        parts.append(f'<text x="{middle:.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(labels[place])}</text>')
    return Markup("".join([*parts, "</svg>"]))  # noqa: S704 - each part is escaped


def _describe(title: str, series: Mapping[str, Sequence[float]]) -> str:
    sums = ", ".join(f"{name} {_format(sum(values))}" for name, values in series.items())
    return f"{title}: {sums}" if sums else title


def _draw_axis(most: float) -> list[str]:
    parts = []
    for part in range(5):
        value = most * part / 4
        y = _y(value, most)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_format(value)}</text>')
    return parts


def _choose_labels(count: int) -> range:
    """The places of at most six labels."""
    return range(0, count, max(1, math.ceil(count / 6)))


def _y(value: float, most: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / most


def _round_up(value: float) -> float:
    """A value that makes a good end of an axis."""
    if value <= 4:
        return 4.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(size * factor for factor in (1, 2, 4, 5, 8, 10) if size * factor >= value)


def _format(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.3g} M"
    if value >= 1e4:
        return f"{value / 1e3:.3g} k"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
