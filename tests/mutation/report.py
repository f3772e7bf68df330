"""Whether every change that no test noticed has its reason, and the page that says so.

Reasons name a change by its place and text, never by a number, so they hold until the line itself
is touched; then somebody has to think again.
"""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.copies import Suite
from tests.mutation.outcomes import Change, Mutant, Status

REASONS = Path(__file__).with_name("equivalent.toml")
_NOTICED = frozenset({Status.KILLED, Status.ENDLESS})
_ANSWERED = _NOTICED | {Status.SURVIVED, Status.UNTESTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The result against the reasons that are written down."""

    unexplained: tuple[Mutant, ...]
    """Not detected, and without a reason."""
    unused: tuple[Change, ...]
    """Reasons without such a change, in modules that were tried."""
    unanswered: int

    @property
    def explained(self) -> bool:
        return not (self.unexplained or self.unused or self.unanswered)

    @property
    def text(self) -> str:
        """For a terminal, every unexplained change as it would stand among the reasons."""
        lines = [_entry(each) for each in self.unexplained]
        lines += [f"no such change survives: {each}" for each in self.unused]
        if self.unanswered:
            lines.append(f"{self.unanswered} changes have no answer")
        return "\n".join((*lines, "" if lines else "every survivor has its reason\n"))


def reasons() -> dict[Change, str]:
    """Why a change makes no difference, by change.

    Raises:
        ValueError: a change stands twice.
    """
    known: dict[Change, str] = {}
    for entry in tomllib.loads(REASONS.read_text(encoding="utf-8"))["equivalent"]:
        for place, changes in entry["at"].items():
            room, name, function = place.split(".", 2)
            module = f"{room}.{name}"
            for before, after in changes:
                change = Change(module=module, function=function, before=before, after=after)
                if change in known:
                    raise ValueError(f"{REASONS.name} has two reasons for {change}")
                known[change] = entry["why"]
    return known


def judged(mutants: Sequence[Mutant]) -> Judgement:
    """Only modules that were tried are judged: a part of the run says nothing of the rest."""
    known = reasons()
    tried = [each for each in mutants if each.status in _ANSWERED]
    modules = {each.change.module for each in tried}
    unnoticed = [each for each in tried if each.status not in _NOTICED]
    survived = {each.change for each in unnoticed}
    return Judgement(
        unexplained=tuple(each for each in unnoticed if each.change not in known),
        unused=tuple(each for each in known if each.module in modules and each not in survived),
        unanswered=sum(
            each.status not in _ANSWERED for each in mutants if each.change.module in modules
        ),
    )


def _entry(mutant: Mutant) -> str:
    change = mutant.change
    place = f"{change.module}.{change.function}"
    return (
        f"# {change.module.replace('.', '/')}.py:{mutant.line} {mutant.status} ({mutant.name})\n"
        f'"{place}" = [[{_quoted(change.before)}, {_quoted(change.after)}]]'
    )


def _quoted(text: str) -> str:
    return f"'{text}'" if "'" not in text else f"'''{text}'''"


def part(suite: Suite, mutants: Sequence[Mutant]) -> str:
    """What the page says of a suite: counts by module, then every survivor with its reason."""
    counts = {name: Counter[Status]() for name in suite.modules}
    for each in mutants:
        counts[each.change.module][each.status] += 1
    total = sum(counts.values(), Counter[Status]())
    rows = [_row(f"`{name}`", count) for name, count in counts.items()]
    text = _HEAD.format(
        title=suite.title,
        mutants=total.total(),
        killed=total[Status.KILLED],
        endless=total[Status.ENDLESS],
        survived=_survived(total),
        tests=", ".join(f"`{name}`" for name in suite.tests),
    )
    return "\n".join((text, *rows, _row("all", total), "", *_survivors(mutants, reasons())))


def _survived(count: Counter[Status]) -> int:
    return count.total() - sum(count[each] for each in _NOTICED)


def _row(name: str, count: Counter[Status]) -> str:
    numbers = (count.total(), count[Status.KILLED], count[Status.ENDLESS], _survived(count))
    return f"| {name} | {' | '.join(f'{each:,}' for each in numbers)} |"


def _survivors(mutants: Sequence[Mutant], known: Mapping[Change, str]) -> list[str]:
    """By reason; equal changes of one line once."""
    by_reason: dict[str, dict[tuple[str, int, str], None]] = {}
    for each in mutants:
        if each.status not in _NOTICED:
            change = each.change
            change_text = f"`{change.before}` → " + (
                f"`{change.after}`" if change.after else "left out"
            )
            places = by_reason.setdefault(known[change], {})
            places[change.module, each.line, change_text] = None
    if not by_reason:
        return []
    lines = ["### Survivors, by the reason why they make no difference", ""]
    for why, places in by_reason.items():
        lines += [f"**{why}**", ""]
        lines += [
            f"- `{module.replace('.', '/')}.py:{line}` {change_text}"
            for module, line, change_text in places
        ]
        lines.append("")
    return lines


_HEAD = """## {title}

{mutants:,} small changes: {killed:,} made a test fail, with {endless:,} the tests came to no end,
and {survived:,} survived. The tests are {tests}.

| module | mutants | killed | endless | survived |
| --- | --: | --: | --: | --: |"""
