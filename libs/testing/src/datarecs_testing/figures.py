"""Figures of benchmarks: medians, and how they are shown.

A separate module because every benchmark reports the same with a number: how often it was measured,
on which machine, under which load, and against which target. Nothing here asserts; a timed test is
flaky.
"""

import math
import os
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import perf_counter

_IDLE, _POLL, _PATIENCE = 0.05, 0.2, 10.0
"""Share of the cores at work that is none, seconds between two polls, and until one gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number, measured several times."""

    name: str
    unit: str
    values: tuple[float, ...]
    """Empty if the measured process failed."""
    target: float | None = None
    more_is_better: bool = False
    death: str | None = None
    """Exit code of its failure."""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        if self.death is not None:
            return False
        wanted = self.median >= self.target if self.more_is_better else self.median <= self.target
        return bool(wanted)


def repeated(rounds: int, measure: Callable[[], float]) -> tuple[float, ...]:
    return tuple(measure() for _ in range(rounds))


def per_second(count: int, work: Callable[[], object]) -> float:
    """`count` things, done by the work, in a second."""
    began = perf_counter()
    work()
    return count / (perf_counter() - began)


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * share) - 1, 0)]


def page(title: str, figures: Sequence[Figure], about: Sequence[tuple[str, str]]) -> str:
    """Figures and machine as Markdown."""
    lines = [f"## {title}", ""]
    lines += [f"- {name}: {value}" for name, value in about]
    lines += [
        "",
        "| what | median | lowest | highest | target |",
        "| --- | --: | --: | --: | --: |",
    ]
    lines += [f"| {one.name} | {' | '.join(_cells(one))} | {_target(one)} |" for one in figures]
    return "\n".join(lines) + "\n"


def replace_part(path: Path, part: str) -> None:
    """Put this part into a page, in place of the one with the same title."""
    title = part.partition("\n")[0]
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    head, *parts = re.split(r"(?m)^(?=## )", old)
    others = [one.rstrip("\n") for one in parts if not one.startswith(f"{title}\n")]
    texts = [head.rstrip("\n"), *others, part.rstrip("\n")]
    path.write_text("\n\n".join(filter(None, texts)) + "\n", encoding="utf-8")


def machine(load_before: float) -> list[tuple[str, str]]:
    """Conditions of a measurement besides the code."""
    after = os.getloadavg()[0]
    return [
        ("cores", str(os.cpu_count())),
        ("load before and after", f"{load_before:.1f}, {after:.1f}"),
    ]


def _cells(one: Figure) -> tuple[str, ...]:
    """Median, lowest, highest."""
    if one.death is not None:
        return (f"died: {one.death}", "", "")
    values = (one.median, min(one.values), max(one.values))
    return tuple(_number(value, one.unit) for value in values)


def _number(value: float, unit: str) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def _target(one: Figure) -> str:
    if one.target is None:
        return ""
    sign = "≥" if one.more_is_better else "≤"
    return f"{sign} {one.target:,g} {one.unit}, {'met' if one.met else 'missed'}"


def settled() -> None:
    """Wait until nothing works any more: allocators still give back what the last one held."""
    busy, most = 1.0, perf_counter() + _PATIENCE
    while busy > _IDLE and perf_counter() < most:
        before = _ticks()
        Event().wait(_POLL)
        busy, everything = (after - one for after, one in zip(_ticks(), before, strict=True))
        busy /= max(everything, 1)


def _ticks() -> tuple[float, float]:
    """Of all cores since the machine started: at work, and altogether."""
    columns = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    spent = [int(each) for each in columns[1:9]]
    return sum(spent) - sum(spent[3:5]), sum(spent)
