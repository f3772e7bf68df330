"""`--set` of `judge`: changes settings of a run's job, in the words of a job file.

A value has the same meaning as in a job: the decoder of jobs reads it with all its digits and
refuses it with the faults of jobs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import UsageFault
from datarecs_core.comparison.insight.rejudging import (
    MeasureChange,
    NotRejudgeableError,
    StageChange,
)
from datarecs_core.comparison.planning.tolerance import tolerance_of
from datarecs_core.comparison.proof.sealed import SealedRun, SealedStage
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunFault
from datarecs_core.jobs.definition import Measure, ReconciliationJob, Stage
from datarecs_specs.documents import decode_yaml

FORM = "stages.STAGE.measures.MEASURE.tolerances=0.01, or .compare_to, .accept of a stage"
_OF_MEASURE = ("tolerances", "combine", "bound")
_OF_STAGE = ("compare_to", "accept")
_SHORT = "[{" + '"'
"""First characters of YAML lists, objects and quoted texts; other values are short limits."""


class JudgeRefusedError(DatarecsError):
    """The new verdict cannot be computed from stored differences; the run itself is sound."""

    code = RunFault.NOT_REJUDGEABLE
    exit_code = ExitCode.USAGE


@dataclass(slots=True)
class _Wanted:
    """The settings of one stage as YAML texts."""

    stage: dict[str, str] = field(default_factory=dict)
    measures: dict[str, dict[str, str]] = field(default_factory=dict)


def changes(run: SealedRun, flags: Sequence[str]) -> Mapping[str, StageChange]:
    """The settings of the flags, by stage.

    Raises:
        UsageFault: a malformed flag, or a stage or measure that the run does not have.
        NotRejudgeableError: a setting that takes effect before values are judged.
    """
    wanted: dict[str, _Wanted] = {}
    for flag in flags:
        path, equals, value = flag.partition("=")
        if not equals or not value.strip() or "\n" in value:
            raise UsageFault(f"--set {flag}: write {FORM}")
        _place(run, path, value.strip(), wanted)
    return {name: _change(_stage(run, name), each) for name, each in wanted.items()}


def _place(run: SealedRun, path: str, value: str, wanted: dict[str, _Wanted]) -> None:
    match path.split("."):
        case ["stages", name, "measures", measure, setting]:
            stage = _stage(run, name)
            known = [each.name for each in stage.measures]
            if measure not in known:
                raise UsageFault(f"--set {path}: no measure {measure!r}{_near(measure, known)}")
            _only(setting, _OF_MEASURE, stage.name)
            settings = wanted.setdefault(name, _Wanted()).measures.setdefault(measure, {})
            settings[setting] = _in_full(value) if setting == "tolerances" else value
        case ["stages", name, setting]:
            _only(setting, _OF_STAGE, _stage(run, name).name)
            wanted.setdefault(name, _Wanted()).stage[setting] = value
        case ["stages", name, "accept", limit]:
            limits = wanted.setdefault(_stage(run, name).name, _Wanted()).stage
            before = limits.get("accept", "{").removesuffix("}")
            limits["accept"] = f"{before}{', ' if before != '{' else ''}{limit}: {value}}}"
        case ["stages", name, *_]:
            _only(path, (), _stage(run, name).name)
        case [head, *_] if head in ("sources", "normalize", "results", "parameters"):
            _only(path, (), run.stages[0].name)
        case _:
            raise UsageFault(f"--set {path}: write {FORM}")


def _only(setting: str, known: Sequence[str], stage: str) -> None:
    if setting not in known:
        reason = f"`{setting}` acts before values are judged, so the sources must be read again"
        raise NotRejudgeableError(stage=stage, reason=reason)


def _stage(run: SealedRun, name: str) -> SealedStage:
    match = run.stage(name)
    known = [stage.name for stage in run.stages if stage.results is not None]
    if match is None or match.results is None:
        raise UsageFault(f"--set stages.{name}: no such executed stage{_near(name, known)}")
    return match


def _near(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"


def _in_full(value: str) -> str:
    """`0.01`, `1%`, `PT1S` and `EXACT` as the list of tolerances that they mean."""
    if value[0] in _SHORT:
        return value
    if value.upper() == "EXACT":
        return "[{type: EXACT}]"
    if value.endswith("%"):
        return f"[{{type: PERCENTAGE, value: {json.dumps(value[:-1].rstrip())}}}]"
    kind = "DURATION" if value.startswith("P") else "ABSOLUTE"
    return f"[{{type: {kind}, value: {json.dumps(value)}}}]"


def _change(stage: SealedStage, wanted: _Wanted) -> StageChange:
    read = _read(stage, wanted)
    measures = {measure.name: measure for measure in read.measures if isinstance(measure, Measure)}
    return StageChange(
        measures={
            name: MeasureChange(
                tolerances=tuple(map(tolerance_of, measures[name].tolerances))
                if "tolerances" in settings
                else None,
                combine=measures[name].combine if "combine" in settings else None,
                bound=measures[name].bound if "bound" in settings else None,
            )
            for name, settings in wanted.measures.items()
        },
        compare_to=read.compare_to if "compare_to" in wanted.stage else None,
        accept=read.accept,
    )


def _read(stage: SealedStage, wanted: _Wanted) -> Stage:
    """Decode the settings as a stage of a job with the same measures."""
    lines = [
        "apiVersion: datarecs.io/v1",
        "kind: ReconciliationJob",
        "metadata: {name: what-if}",
        "spec:",
        "  sources:",
        "    - {name: a, kind: csv, path: a.csv}",
        "    - {name: b, kind: csv, path: b.csv}",
        "  stages:",
        "    - name: stage",
        "      type: row",
        "      dimensions: [what_if_key]",
        *(f"      {name}: {value}" for name, value in wanted.stage.items()),
        "      measures:" if stage.measures else '      measures: "*"',
    ]
    for measure in stage.measures:
        lines.append(f"        - name: {json.dumps(measure.name)}")
        settings = wanted.measures.get(measure.name, {})
        lines += [f"          {name}: {value}" for name, value in settings.items()]
    (decoded,) = decode_yaml("\n".join(lines).encode())
    if decoded.faults:
        faults = "; ".join(f"{one.code.docs_id} {one.message}" for one in decoded.faults)
        raise UsageFault(f"--set: {faults}")
    _, job = decoded.require()
    if not isinstance(job, ReconciliationJob):
        raise TypeError("the declaration of a job is a job")
    return job.stages[0]
