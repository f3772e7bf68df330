"""The plot of growth: seconds of every contestant over the rows of a source, from the page itself.

`compare.py` leaves a part for every size; their medians become one picture and one table, so that
both always show what the page says. Both axes are logarithmic: a straight line of slope one is work
that grows with the rows.
"""

import argparse
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from xml.sax.saxutils import escape

from datarecs_testing.figures import replace_part

SHARE = "0.03%"
_PART = re.compile(
    rf"(?ms)^## 2 sources of ([\d,]+) rows, {re.escape(SHARE)} differ\n.*?^- medians: (.*?)$"
)
_MEDIAN = re.compile(r"(.+?) ([\d.]+) s(?:, |$)")
OURS = ("#c62828", "#ef6c00", "#8e24aa")
PEERS = ("#33658a", "#7a5c43", "#3a8f85", "#6b6b6b", "#4a7c2c")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 60, 180, 20, 46
"""Of the picture, and what its axes and names take of it."""

Seconds = Mapping[str, Mapping[int, float]]
"""By contestant and rows of a source."""


def seconds_of(page: str) -> Seconds:
    """What the page says of two sources of which few rows differ."""
    seconds: dict[str, dict[int, float]] = {}
    for rows, medians in _PART.findall(page):
        for name, value in _MEDIAN.findall(medians):
            seconds.setdefault(name, {})[int(rows.replace(",", ""))] = float(value)
    return seconds


def table(measured: Seconds, sizes: Sequence[int]) -> str:
    """Seconds at every size, and by how much the last step grows."""
    head = " | ".join(f"{rows:,} rows" for rows in sizes)
    lines = [f"| seconds | {head} |", f"| --- |{' --: |' * len(sizes)}"]
    for name, at in measured.items():
        cells = [f"{at[rows]:.2f}" if rows in at else "" for rows in sizes]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


class Plot:
    """The position of a number of rows and of seconds in the picture."""

    def __init__(self, measured: Seconds) -> None:
        self.measured = measured
        rows = [each for at in measured.values() for each in at]
        seconds = [each for at in measured.values() for each in at.values()]
        self.rows = (min(rows), max(rows))
        self.seconds = (_decade_below(min(seconds)), _decade_above(max(seconds)))

    def x(self, rows: float) -> float:
        return LEFT + _share(rows, *self.rows) * (WIDTH - LEFT - RIGHT)

    def y(self, seconds: float) -> float:
        return HEIGHT - BOTTOM - _share(seconds, *self.seconds) * (HEIGHT - TOP - BOTTOM)

    def svg(self) -> str:
        """A picture without scripts, fonts or anything from elsewhere."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        lines = [
            f'{head} font-family="sans-serif" font-size="12" role="img">',
            "<title>Seconds by rows of a source</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            *self._axes(),
            *self._lines(),
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    def _axes(self) -> Iterator[str]:
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        decade = self.seconds[0]
        while decade <= self.seconds[1]:
            y = self.y(decade)
            yield f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#dddddd"/>'
            yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{decade:g} s</text>'
            decade *= 10
        for rows in sorted({each for at in self.measured.values() for each in at}):
            x = self.x(rows)
            yield f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="#eeeeee"/>'
            label = f"{rows / 1e6:g} M" if rows >= 1e6 else f"{rows:,}"
            yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{label}</text>'
        where = f'x="{(LEFT + right) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle"'
        yield f"<text {where}>rows of a source</text>"

    def _lines(self) -> Iterator[str]:
        """The names stand at the ends, pushed apart."""
        ends = sorted(
            self.measured, key=lambda name: self.y(self.measured[name][max(self.measured[name])])
        )
        colours = _colours(self.measured)
        below = float(TOP)
        for name in ends:
            at = sorted(self.measured[name].items())
            colour = colours[name]
            points = [(self.x(rows), self.y(seconds)) for rows, seconds in at]
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
            for x, y in points:
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
            below = max(points[-1][1] + 4, below + 15)
            where = f'x="{WIDTH - RIGHT + 10}" y="{below:.1f}"'
            yield f'<text {where} fill="{colour}">{escape(name)}</text>'


def _colours(names: Iterable[str]) -> dict[str, str]:
    """Ours stand out."""
    ours, peers = cycle(OURS), cycle(PEERS)
    return {name: next(ours if name.startswith("datarecs") else peers) for name in names}


def _share(value: float, low: float, high: float) -> float:
    if low == high:
        return 0.5
    return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))


def _decade_below(value: float) -> float:
    return float(10 ** math.floor(math.log10(value)))


def _decade_above(value: float) -> float:
    return float(10 ** math.ceil(math.log10(value)))


def main() -> int:
    """Draw the picture beside the page and show it there."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.growth", description=__doc__)
    parser.add_argument("--write", type=Path, required=True, help="the page to read and to add to")
    options = parser.parse_args()
    measured = seconds_of(options.write.read_text(encoding="utf-8"))
    sizes = sorted({rows for at in measured.values() for rows in at})
    if not sizes:
        sys.stderr.write(
            f"{options.write} has no part on two sources with {SHARE} of differences\n"
        )
        return 1
    picture = options.write.with_name(f"{options.write.stem}-growth.svg")
    picture.write_text(Plot(measured).svg(), encoding="utf-8")
    shown = f"![seconds by rows of a source]({picture.name})"
    replace_part(options.write, f"## Growth\n\n{shown}\n\n{table(measured, sizes)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
