"""From the flags of `datarecs capture` to the body of a request, with every violation at once.

Separate from the commands because all violations are listed before a server is called: those of
the flags, and those of the request that they describe.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from datarecs_cli.invocation import UsageFault
from datarecs_core.captures.request import CaptureMode, ExecutionClass
from datarecs_core.errors.faults import did_you_mean
from datarecs_core.resources.resource import DEFAULT_NAMESPACE
from datarecs_specs.capture_shape import capture_of

MODES = {mode.value.lower().replace("_", "-"): mode.value for mode in CaptureMode}
CLASSES = {one.value.lower(): one.value for one in ExecutionClass}
OUTPUTS: Mapping[str, tuple[str, ...]] = {
    "stats": ("TABLE_STATS", "COLUMN_STATS", "FILE_STATS"),
    "index": ("PARQUET_PAGE_INDEX",),
}
LONGEST_WAIT_S = 60
_FLAG_OF: Mapping[str, str] = {
    "connection": "CONNECTION",
    "mode": "--mode",
    "scope/namespaces": "--namespace",
    "scope/tables": "--table",
    "scope/view": "--view",
    "outputs": "--capture",
    "columns": "--columns",
    "snapshots": "--snapshot",
    "snapshots/latest": "--latest-n",
    "execution/class": "--class",
    "execution/lane": "--lane",
}
"""By the longest start of a path of the request."""
_SELECTIONS = "--current, --latest-n N, --snapshot ID[,ID], --all"
_WAIT = re.compile(r"([0-9]{1,6})s?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What was typed, unchecked."""

    connection: str
    full: bool = False
    incremental: bool = False
    current_only: bool = False
    latest_n: int | None = None
    snapshot: str | None = None
    every: bool = False
    mode: str | None = None
    capture: str | None = None
    namespace: Sequence[str] | None = None
    table: Sequence[str] | None = None
    view: str | None = None
    columns: str | None = None
    execution_class: str | None = None
    lane: str | None = None
    max_wait: str | None = None

    @classmethod
    def of(cls, typed: Mapping[str, Any]) -> "Flags":
        """From the parameters of a command; those of other names are left out."""
        names = {one.name for one in fields(cls)}
        return cls(**{name: typed[name] for name in names & typed.keys()})


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedCapture:
    """A request without faults."""

    body: Mapping[str, object]
    namespace: str
    """Of the connection."""
    max_wait_s: int | None = None


def wanted_capture(flags: Flags) -> WantedCapture:
    """The request of these flags.

    Raises:
        UsageFault: lists every violation.
    """
    namespace, _, name = flags.connection.rpartition("/")
    body = _body(flags, name)
    violations = [*_violations(flags)]
    _, findings = capture_of(body)
    known = {flag for flag, _ in violations}
    for finding in findings:
        flag = _flag_of(finding.pointer)
        if flag not in known:
            hint = f"; {finding.hint}" if finding.hint else ""
            violations.append((flag, f"{flag}: {finding.message}{hint}"))
    if violations:
        raise UsageFault("\n".join(text for _, text in violations))
    wait_s = None if flags.max_wait is None else _seconds(flags.max_wait)
    return WantedCapture(body=body, namespace=namespace or DEFAULT_NAMESPACE, max_wait_s=wait_s)


def _flag_of(pointer: str) -> str:
    parts = pointer.strip("/").split("/")
    starts = ("/".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((_FLAG_OF[one] for one in starts if one in _FLAG_OF), pointer)


def _violations(flags: Flags) -> Iterator[tuple[str, str]]:
    """Flag and sentence."""
    if flags.full is flags.incremental:
        yield "--full", "write exactly one of --full and --incremental"
    if flags.mode is None:
        yield "--mode", f"--mode is missing: write {', '.join(MODES)}"
    elif flags.mode not in MODES:
        yield "--mode", _unknown("--mode", flags.mode, MODES)
    yield from _selection_violations(flags)
    yield from _output_violations(flags)
    if flags.execution_class is not None and flags.execution_class not in CLASSES:
        yield "--class", _unknown("--class", flags.execution_class, CLASSES)
    if flags.max_wait is not None and _seconds(flags.max_wait) is None:
        text = f"--max-wait {flags.max_wait}: write 1s to {LONGEST_WAIT_S}s"
        yield "--max-wait", text


def _selection_violations(flags: Flags) -> Iterator[tuple[str, str]]:
    chosen = [
        *(["--current"] if flags.current_only else []),
        *(["--latest-n"] if flags.latest_n is not None else []),
        *(["--snapshot"] if flags.snapshot is not None else []),
        *(["--all"] if flags.every else []),
    ]
    if flags.view is not None:
        for flag in chosen:
            yield "--snapshot", f"{flag}: a view has no snapshots; leave it out with --view"
    elif len(chosen) != 1:
        both = f", and not {' and '.join(chosen)}" if chosen else ""
        yield "--snapshot", f"write exactly one of {_SELECTIONS}{both}"
    for text in _words(flags.snapshot):
        if not text.isdecimal():
            yield "--snapshot", f"--snapshot {text}: an id of a snapshot has digits only"


def _output_violations(flags: Flags) -> Iterator[tuple[str, str]]:
    for word in _words(flags.capture):
        if word == "fingerprint":
            text = "fingerprint is not captured in this release; it comes with incremental runs"
            yield "--capture", f"--capture: {text}"
        elif word not in OUTPUTS:
            yield "--capture", _unknown("--capture", word, OUTPUTS)


def _unknown(flag: str, word: str, known: Mapping[str, object]) -> str:
    guess = did_you_mean(word, known)
    return f"{flag} {word}: {guess or 'write ' + ', '.join(known)}"


def _words(text: str | None) -> list[str]:
    return [] if text is None else [one.strip() for one in text.split(",")]


def _seconds(text: str) -> int | None:
    matched = _WAIT.fullmatch(text)
    seconds = 0 if matched is None else int(matched[1])
    return seconds if 1 <= seconds <= LONGEST_WAIT_S else None


def _body(flags: Flags, connection: str) -> Mapping[str, object]:
    """What can be read of the flags; the rest has its own violation."""
    outputs = [one for word in _words(flags.capture) for one in OUTPUTS.get(word, ())]
    parts: dict[str, object] = {
        "connection": connection,
        "mode": MODES.get(flags.mode or ""),
        "full_rescan": flags.full,
        "scope": _without_none(
            {
                "namespaces": list(flags.namespace or ()) or None,
                "tables": list(flags.table or ()) or None,
                "view": flags.view,
            }
        ),
        "outputs": outputs or None,
        "columns": _columns(flags.columns),
        "snapshots": _snapshots(flags),
        "execution": _without_none(
            {"class": CLASSES.get(flags.execution_class or ""), "lane": flags.lane}
        ),
    }
    return _without_none({name: part for name, part in parts.items() if part != {}})


def _columns(text: str | None) -> Mapping[str, object] | None:
    if text is None:
        return None
    if text == "all":
        return {"choice": "ALL"}
    if text.isdecimal():
        return {"choice": "FIRST_N", "first": int(text)}
    return {"choice": "EXPLICIT_ONLY", "names": _words(text)}


def _snapshots(flags: Flags) -> Mapping[str, object] | None:
    if flags.latest_n is not None:
        return {"select": "LATEST_N", "latest": flags.latest_n}
    if flags.snapshot is not None:
        return {"select": "EXPLICIT", "ids": _words(flags.snapshot)}
    if flags.every:
        return {"select": "ALL"}
    return {"select": "CURRENT"} if flags.current_only else None


def _without_none(members: Mapping[str, object]) -> dict[str, object]:
    return {name: one for name, one in members.items() if one is not None}
