"""`diff RUN --with EARLIER`: changes of breaks, rows, job and verdict between two runs.

`results` shows the differences between sources in one run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from datarecs_cli.invocation import Invocation, Output, UsageFault
from datarecs_cli.output import Column, cell, print_json, print_list
from datarecs_core.comparison.insight.changes import Change, Changed, Changes, changes
from datarecs_core.comparison.planning.plan import PRESENCE
from datarecs_core.comparison.proof.sealed import SealedRun
from datarecs_reports.differences import DifferenceFilter, all_differences
from datarecs_reports.figures import amount, count, counted
from datarecs_reports.stored_rows import parts_of

Row = Mapping[str, object]
_COLUMNS = (
    Column(title="CHANGE", member="change"),
    Column(title="STAGE", member="stage"),
    Column(title="KEY", member="key"),
    Column(title="MEASURE", member="measure"),
    Column(title="WAS", member="was"),
    Column(title="IS", member="is"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The comparable data of one of two runs."""

    name: str
    job: str
    sealed: SealedRun | None
    """None for a run of a server, because its document is not read."""
    rows: Iterable[Row]


def of_folder(place: Path, where: DifferenceFilter, stage: str | None) -> Finished:
    """The run of a result folder of `compare`.

    Raises:
        UsageFault: no such path, not a run.json, or no differences beside it.
    """
    from datarecs_cli.evidence import evidence_at, stored_run

    sealed, folder = stored_run(place)
    document = evidence_at(place).document
    members = document.get("run") if isinstance(document, Mapping) else None
    job = members.get("job") if isinstance(members, Mapping) else None
    parts = [
        part
        for each in sealed.stages
        if stage in (None, each.name)
        for part in parts_of(folder, each.name)
    ]
    return Finished(
        name=str(place), job=str(job or ""), sealed=sealed, rows=all_differences(parts, where)
    )


def print_changes(
    earlier: Finished, later: Finished, *, limit: int, invocation: Invocation
) -> bool:
    """Print the changes and return whether there are any.

    Raises:
        UsageFault: the runs are of different jobs.
    """
    if earlier.job != later.job:
        raise UsageFault(
            f"{later.name} is a run of {later.job or 'no job'}, {earlier.name} of "
            f"{earlier.job or 'no job'}; name two runs of one job"
        )
    comparison = changes(earlier.rows, later.rows, identity=_identity, content=_content)
    context = _context(earlier, later)
    if invocation.output is Output.JSON:
        print_json("diff", {**_members(comparison, limit), "context": context})
        return comparison.any
    lines = [_item(each) for each in comparison.rows[:limit]]
    if invocation.output in (None, Output.TABLE, Output.TEXT):
        counts = ", ".join(
            f"{count(number)} {word}"
            for number, word in (
                (comparison.new, "new"),
                (comparison.changed, "changed"),
                (comparison.gone, "gone"),
                (comparison.same, "as before"),
            )
        )
        print(f"breaks       {counts}")
        for line in context:
            print(line)
    if lines:
        print_list("diff", _COLUMNS, lines, invocation)
    if len(comparison.rows) > limit:
        invocation.say(f"the first {counted(limit, 'row')}; show more with --limit")
    return comparison.any


def _identity(row: Row) -> tuple[object, ...]:
    return (row.get("stage"), row.get("measure"), _pairs(row.get("key")))


def _content(row: Row) -> tuple[object, ...]:
    return (row.get("class"), row.get("presence"), _pairs(row.get("values")))


def _pairs(member: object) -> tuple[tuple[str, object], ...]:
    return tuple(member.items()) if isinstance(member, Mapping) else ()


def _context(earlier: Finished, later: Finished) -> list[str]:
    """Lines about changes of the verdict, the job, the parameters and the source rows."""
    was, now = earlier.sealed, later.sealed
    if was is None or now is None:
        return []
    lines = []
    if was.verdict is not now.verdict:
        lines.append(f"verdict      {was.verdict} -> {now.verdict}")
    if was.spec_hash != now.spec_hash:
        lines.append("job          changed between the runs")
    if was.parameters != now.parameters:
        lines.append("parameters   changed between the runs")
    rows = {each.name: each.closure.extracted for each in was.inputs}
    for each in now.inputs:
        before = rows.get(each.name)
        if before != each.closure.extracted:
            rows_before = "absent" if before is None else counted(before, "row")
            lines.append(
                f"rows         {cell(each.name)}: {rows_before} -> {count(each.closure.extracted)}"
            )
    incomplete = (f"stage {cell(name)}" for name in _truncated(was, now))
    return [*lines, *(f"incomplete   {one}: not all differences are stored" for one in incomplete)]


def _truncated(*runs: SealedRun) -> list[str]:
    names = [
        stage.name
        for run in runs
        for stage in run.stages
        if stage.results is not None and stage.results.differences.truncated
    ]
    return list(dict.fromkeys(names))


def _members(comparison: Changes[Row], limit: int) -> dict[str, object]:
    return {
        "new": comparison.new,
        "changed": comparison.changed,
        "gone": comparison.gone,
        "same": comparison.same,
        "items": [
            {"change": each.change.value, "before": each.before, "after": each.after}
            for each in comparison.rows[:limit]
        ],
    }


def _item(changed: Changed[Row]) -> dict[str, object]:
    row = changed.after if changed.after is not None else changed.before
    members = row if row is not None else {}
    key = [
        f"{name}={'NULL' if part is None else part}" for name, part in _pairs(members.get("key"))
    ]
    present = members.get("measure") != PRESENCE
    return {
        "change": changed.change.value.lower(),
        "stage": members.get("stage"),
        "key": " ".join(key),
        "measure": members.get("measure") if present else "presence",
        "was": "" if changed.change is Change.NEW else _values(changed.before),
        "is": "" if changed.change is Change.GONE else _values(changed.after),
    }


def _values(row: Row | None) -> str:
    """`ledger 10.00, lake 9.50`; for a group that is missing in a source, numbers of rows."""
    values = _pairs(row.get("values")) if row is not None else ()
    return ", ".join(
        f"{name} {'NULL' if value is None else amount(str(value))}" for name, value in values
    )
