"""Faults with line and column, sorted, and their form for people.

Separate from decoding because the same list is shown as text with a caret, as JSON, as annotations
of a code host and as `errors[]` of a REST response.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from datarecs_core.errors.faults import Path, Place, dotted, pointer
from datarecs_core.errors.spec import SpecCode
from datarecs_specs.hiding import HIDDEN, without_secrets
from datarecs_specs.nodes import START, Mark, TextFault
from datarecs_specs.reading import Reading, Spot

MAX_SHOWN = 100
_SENTENCE_END = re.compile(r"[.;] ")
_NOWHERE = Spot(key=None, value=None, first=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault or warning, with its place in the text where there is one."""

    code: SpecCode
    document: int
    """Number of the document in its file, from 0."""
    path: str
    """For people, such as `spec.stages[0]`; empty for the document."""
    pointer: str
    """RFC 6901 of the field itself, also when it is missing or unknown."""
    line: int | None
    column: int | None
    message: str
    hint: str = ""
    fix: str = ""
    """In place of the remedy of the code."""
    warning: bool = False
    note: bool = False

    @property
    def severity(self) -> str:
        """`error`, `warning` or `note`."""
        if self.note:
            return "note"
        return "warning" if self.warning else "error"

    def as_json(self) -> dict[str, object]:
        """Member of a problem's `errors`; absent members are left out."""
        members = {
            "code": self.code.docs_id,
            "pointer": self.pointer,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "hint": self.hint or None,
        }
        return {name: value for name, value in members.items() if value is not None}

    @property
    def sentence(self) -> str:
        """`path: message; hint`, as one line."""
        lead = f"{self.path}: " if self.path else ""
        return f"{lead}{self.message}" + (f"; {self.hint}" if self.hint else "")


def from_text(fault: TextFault, document: int) -> Finding:
    return Finding(
        code=fault.code,
        document=document,
        path="",
        pointer="",
        line=fault.mark.line,
        column=fault.mark.column,
        message=fault.message,
        hint=fault.hint,
        fix=fault.hint,
    )


def located(reading: Reading, *, document: int, root: Mark | None) -> tuple[Finding, ...]:
    """Every fault of the reading with its place, sorted by line, column and id."""
    findings = []
    for fault in reading.faults:
        marks = [_mark(reading, one, fault.place, root) for one in (fault.path, *fault.others)]
        known = [mark for mark in marks if mark is not None]
        mark = max(known) if known else None
        findings.append(
            Finding(
                code=fault.code,
                document=document,
                path=dotted(fault.shown_path),
                pointer=pointer(fault.path),
                line=mark.line if mark else None,
                column=mark.column if mark else None,
                message=fault.message,
                hint=fault.hint,
                fix=fault.fix,
                warning=fault.warning,
                note=fault.note,
            )
        )
    return in_order(findings)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By document, line, column and id; findings without a place keep their order."""
    return tuple(
        sorted(findings, key=lambda one: (one.document, one.line or 0, one.column or 0, _rank(one)))
    )


def _rank(finding: Finding) -> str:
    return finding.code.docs_id if finding.line else ""


def _mark(reading: Reading, path: Path, place: Place, root: Mark | None) -> Mark | None:
    """The marked place: the value, the key, or the parent of a missing part.

    A path that is not in the text (a default, an item of a shorthand) is shown at the nearest
    parent that is.
    """
    if place is Place.MISSING:
        return _parent_mark(reading, path[:-1], root)
    if place is Place.KEY and path in reading.again:
        return reading.again[path]
    while path and path not in reading.spots:
        path = path[:-1]
    spot = reading.spots.get(path, _NOWHERE)
    if place is Place.KEY:
        return spot.key or spot.value or root
    return spot.value or root


def _parent_mark(reading: Reading, parent: Path, root: Mark | None) -> Mark | None:
    while parent and parent not in reading.spots:
        parent = parent[:-1]
    spot = reading.spots.get(parent, _NOWHERE)
    if not parent:
        return root
    if isinstance(parent[-1], int):
        return spot.first
    return spot.key or spot.first


def as_lines(findings: Sequence[Finding], *, file: str, text: str) -> list[str]:
    """Each finding with its line of the text and a caret under the place, at most 100 of them."""
    lines = without_secrets(text, [_place(one) for one in findings if _is_about_secret(one)])
    shown: list[str] = []
    for finding in findings[:MAX_SHOWN]:
        shown += _with_caret(finding, file, lines)
    if len(findings) > MAX_SHOWN:
        shown.append(f"{file}: {len(findings) - MAX_SHOWN} more")
    return shown


def _is_about_secret(finding: Finding) -> bool:
    is_inside = f"{finding.pointer}/".startswith("/spec/auth/")
    return finding.code is SpecCode.INLINE_SECRET or is_inside


def _place(finding: Finding) -> tuple[int, int]:
    return finding.line or 0, finding.column or 1


def headline(finding: Finding, file: str) -> str:
    """`file:line:column DRnnnn path: message; hint`."""
    mark = START if finding.line is None else Mark(finding.line, finding.column or 1)
    word = f" {finding.severity}:" if finding.warning else ""
    place = f"{file}:{mark.line}:{mark.column}"
    return f"{place} {finding.code.docs_id}{word} {finding.sentence}"


def _with_caret(finding: Finding, file: str, lines: Sequence[str]) -> list[str]:
    is_repeated = finding.hint == finding.fix
    shown = [headline(replace(finding, hint="") if is_repeated else finding, file)]
    if finding.note:
        return shown
    if finding.line is not None and finding.line <= len(lines):
        source = printable(lines[finding.line - 1])
        start = min((finding.column or 1) - 1, len(source.removesuffix(HIDDEN)))
        number = str(finding.line)
        shown.append(f"  {number} | {source[:160]}")
        if start < 160:  # noqa: PLR2004  as much of a line as is shown
            shown.append(f"  {' ' * len(number)} | {' ' * start}{'^' * _width(source, start)}")
    shown += [f"  fix   {_fix(finding)}", f"  docs  datarecs errors {finding.code.docs_id}"]
    return shown


def _fix(finding: Finding) -> str:
    if finding.fix:
        return finding.fix
    first = _SENTENCE_END.split(finding.code.entry.remedy.removesuffix("."))[0]
    return first[:1].lower() + first[1:]


def _width(source: str, start: int) -> int:
    """Characters to underline: the word that starts here."""
    end = start
    while end < len(source) and (source[end].isalnum() or source[end] in "_-./"):
        end += 1
    return max(1, end - start)


def printable(line: str) -> str:
    """The line as a terminal may show it, every character one column of text."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in line)
