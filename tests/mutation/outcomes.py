"""What mutmut reports: every change with its place, its text and whether a test noticed it.

mutmut numbers the changes of a function, and the numbers move when the function does; its place and
its text say which change it is. Both come from the files that mutmut leaves beside the copy.
"""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from pathlib import Path

from tests.mutation.copies import Suite

_MARK = "__mutmut_"
_CLASS = "ǁ"
"""Between the parts of a method's name, as mutmut writes it."""


class Status(StrEnum):
    """Of one change."""

    KILLED = "killed"
    """A test failed."""
    ENDLESS = "endless"
    """The tests took many times as long as they usually take; most often a loop without end."""
    SURVIVED = "survived"
    UNTESTED = "untested"
    """No test calls the function."""
    UNKNOWN = "unknown"
    """Not run yet, or its process ended."""


_STATUS: Mapping[int | None, Status] = {
    0: Status.SURVIVED,
    1: Status.KILLED,
    3: Status.KILLED,
    5: Status.UNTESTED,
    33: Status.UNTESTED,
    -24: Status.ENDLESS,
    24: Status.ENDLESS,
    36: Status.ENDLESS,
    152: Status.ENDLESS,
    255: Status.ENDLESS,
}
"""By the exit code that mutmut keeps: those of pytest, of a signal (24), and its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One small change; equal texts at two places of a function are one change."""

    module: str
    function: str
    """With its class, where it has one."""
    before: str
    """The changed lines without indentation, joined by blanks."""
    after: str
    """Empty where lines are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A change that was tried."""

    name: str
    """mutmut's own."""
    change: Change
    line: int
    status: Status


def outcomes(folder: Path, suite: Suite) -> list[Mutant]:
    """Everything that was tried in a suite's folder, by module and line."""
    mutants = [mutant for module in suite.modules for mutant in _of_module(folder, suite, module)]
    return sorted(mutants, key=lambda each: (each.change.module, each.line, each.name))


def _of_module(folder: Path, suite: Suite, module: str) -> Iterator[Mutant]:
    mutated = folder / "mutants" / suite.file(module)
    codes = json.loads(Path(f"{mutated}.meta").read_text(encoding="utf-8"))["exit_code_by_key"]
    spans = json.loads(Path(f"{mutated}.spans").read_text(encoding="utf-8"))["spans"]
    lines = mutated.read_text(encoding="utf-8").splitlines()
    begins = _begins((folder / suite.file(module)).read_text(encoding="utf-8"))
    for name, code in codes.items():
        mutant = name.rpartition(".")[2]
        original = f"{mutant.partition(_MARK)[0]}{_MARK}orig"
        written = original.removesuffix(f"{_MARK}orig")
        function = written.removeprefix(f"x{_CLASS}").removeprefix("x_").replace(_CLASS, ".")
        old = _function(lines, spans[original])
        new = [line.replace(mutant, original) for line in _function(lines, spans[mutant])]
        at, before, after = _changed(old, new)
        yield Mutant(
            name=name,
            change=Change(
                module=module,
                function=function,
                before=before,
                after=after,
            ),
            line=begins[function] + at,
            status=_STATUS.get(code, Status.UNKNOWN),
        )


def _begins(text: str) -> dict[str, int]:
    """The line of every function and method."""
    lines: dict[str, int] = {}
    for node in ast.parse(text).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for each in inner:
            if isinstance(each, ast.FunctionDef):
                lines[prefix + each.name] = each.lineno
    return lines


def _function(lines: Sequence[str], span: Sequence[int]) -> list[str]:
    """From its `def` on; blank lines stand before it."""
    first, last = span
    return "\n".join(line.strip() for line in lines[first - 1 : last]).strip().split("\n")


def _changed(old: Sequence[str], new: Sequence[str]) -> tuple[int, str, str]:
    """The place of the first change, its old text, and its new text."""
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    changed = [block for block in blocks if block[0] != "equal"]
    if not changed:
        return 0, "", ""
    first, last = changed[0], changed[-1]
    before, after = old[first[1] : last[2]], new[first[3] : last[4]]
    return first[1], " ".join(before), " ".join(after)
