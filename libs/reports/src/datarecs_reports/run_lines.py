"""Lines of a page about the run: times, requester, ids, hashes, and commands to repeat it.

Pages of runs with and without a verdict share them.
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from datarecs_reports.figures import count, instant, lasting, visible
from datarecs_reports.model import RunFacts


def text_of(run: Mapping[str, object], name: str) -> str | None:
    """A field of the run as text; None if it is missing or empty."""
    value = run.get(name)
    return None if value in (None, "") else str(value)


def when(run: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Times of trigger, start and end, and the duration, if reached."""
    for label, name in (
        ("Triggered", "created_at"),
        ("Started", "started_at"),
        ("Ended", "ended_at"),
    ):
        if moment := text_of(run, name):
            yield label, instant(moment)
    began, ended = text_of(run, "started_at"), text_of(run, "ended_at")
    if began and ended:
        took = datetime.fromisoformat(ended) - datetime.fromisoformat(began)
        yield "Took", lasting(str(took // timedelta(milliseconds=1) * 1000))


def who(run: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """The run's id and its requester."""
    if run_id := text_of(run, "run_id"):
        yield "Run", run_id
    if by := text_of(run, "triggered_by"):
        mode = text_of(run, "mode")
        yield "Requested by", visible(by) + (f" ({mode.lower()})" if mode else "")


def head_facts(facts: RunFacts, run: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    yield from who(run)
    yield from when({**facts.run.maybe_part("times").content, **_non_null_fields(run)})
    generation = text_of(run, "job_generation")
    if generation:
        yield "Job generation", generation
    attempt = run.get("attempt")
    if isinstance(attempt, int) and attempt > 1:
        yield "Attempt", count(attempt)
    if facts.parameters:
        shown = (f"{name} = {visible(_plain(value))}" for name, value in facts.parameters.items())
        yield "Parameters", ", ".join(shown)
    execution = facts.run.maybe_part("execution")
    if engine := execution.maybe("engine"):
        reason = execution.maybe("engine_reason")
        yield "Engine", f"{engine}: {visible(reason)}" if reason else engine
    if facts.acceptance != "NOT_CONFIGURED":
        yield "Acceptance", facts.acceptance
    yield "Spec hash", facts.spec_hash


def ended_line(facts: RunFacts, run: Mapping[str, object]) -> str:
    """`Ended 2026-11-20 06:14:03 UTC · took 2.92 s · requested by ana (immediate)`."""
    times = {**facts.run.maybe_part("times").content, **_non_null_fields(run)}
    named = {**dict(when(times)), **dict(who(run))}
    labels = ("Ended", "Took", "Requested by")
    parts = [f"{label} {named[label]}" for label in labels if label in named]
    return " · ".join(parts)


def export_command(run: Mapping[str, object], stage: str) -> str:
    """The command that writes all differences of a stage; empty without a folder or id.

    An empty folder is one that does not stay.
    """
    place = text_of(run, "folder" if "folder" in run else "run_id")
    return shlex.join(["datarecs", "export", place, "--stage", stage]) if place else ""


def _non_null_fields(run: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in run.items() if value is not None}


def _plain(written: str) -> str:
    """A parameter's canonical JSON as text for people."""
    value = json.loads(written)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def commands(facts: RunFacts, run: Mapping[str, object]) -> tuple[str, ...]:
    """The command that repeats the run, and the command that shows its differences."""
    command = facts.run.maybe("command")
    if command is not None:
        return (command,)
    words = ["datarecs", "run", facts.job or str(run.get("job") or "")]
    for name, value in facts.parameters.items():
        words += ["--param", f"{name}={_plain(value).replace(', ', ',')}"]
    again = shlex.join(words)
    run_id = text_of(run, "run_id")
    return (again,) if facts.matched or run_id is None else (again, f"datarecs diff {run_id}")


def proof_facts(facts: RunFacts) -> Iterator[tuple[str, str]]:
    yield "proof_hash", facts.proof_hash
    yield "canonical form", facts.canonical
    yield "key", facts.key_id
    versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items())
    yield "data versions", versions
    if facts.merkle_root is not None:
        yield "root over row digests", facts.merkle_root
