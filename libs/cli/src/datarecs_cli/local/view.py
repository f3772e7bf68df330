"""Prints a local comparison: the view of a run, then the places of the files."""

from collections.abc import Mapping

from datarecs_cli.invocation import Output, current
from datarecs_cli.local.folder import OutFolder
from datarecs_cli.output import cell, print_json, stdout_words
from datarecs_cli.verdict_view import verdict_lines, warning_lines
from datarecs_reports.figures import count
from datarecs_reports.model import Executed, RunFacts
from datarecs_reports.tables import largest_first
from datarecs_runtime.environment import process_environment

_MOST_COLUMNS = 8
_MOST_NOTES = 10


def print_result(
    document: Mapping[str, object],
    facts: RunFacts,
    out: OutFolder,
    *,
    not_compared: tuple[str, ...],
) -> None:
    """Print data on stdout; omitted columns and warnings on stderr."""
    invocation = current()
    match invocation.output:
        case Output.JSON:
            print_json("compare", _members(document, facts, out))
        case Output.MD:
            from datarecs_reports.markdown import run_markdown

            print(run_markdown(document, samples=True).decode(), end="")
        case Output.NAME:
            print(out.report)
        case _:
            words = stdout_words(process_environment())
            for line in verdict_lines(facts, _largest(facts), words, invocation):
                print(line)
            print(f"report       {out.report}")
    for line in _notes(facts, not_compared):
        invocation.say(line)


def _members(
    document: Mapping[str, object], facts: RunFacts, out: OutFolder
) -> Mapping[str, object]:
    proof = document["proof"]
    stages = proof["stages"] if isinstance(proof, Mapping) else []
    return {
        "run": document["run"],
        "result": facts.result,
        "acceptance": facts.acceptance,
        "proof_hash": facts.proof_hash,
        "stages": stages,
        "warnings": [
            {"code": each.code, "message": each.message, "where": list(each.where)}
            for each in facts.warnings
        ],
        "run_json": str(out.run_json),
        "report": str(out.report),
        "differences": str(out.differences),
    }


def _largest(facts: RunFacts) -> Mapping[str, object] | None:
    """The largest difference between values, in the form of the API's list."""
    for stage in facts.stages:
        if stage.executed is not None:
            rows = [row for row in stage.executed.samples if row.is_break and row.deltas]
            if rows:
                row = largest_first(rows)[0]
                key = dict(zip(_key_names(stage.executed), row.key, strict=True))
                figures = {"key": key, "values": row.values, "deltas": row.deltas}
                return {"stage": stage.name, "measure": row.measure, **figures}
    return None


def _key_names(executed: Executed) -> list[str]:
    return [each.name for each in executed.question.dimensions]


def _notes(facts: RunFacts, not_compared: tuple[str, ...]) -> list[str]:
    lines = []
    if not_compared:
        shown = ", ".join(map(cell, not_compared[:_MOST_COLUMNS]))
        more = len(not_compared) - _MOST_COLUMNS
        lines.append(f"not compared {shown}" + (f" and {count(more)} more" if more > 0 else ""))
    for source in facts.sources:
        notes = [*source.read_as, *source.notes][:_MOST_NOTES]
        lines.extend(f"note         {cell(source.name)}: {cell(line)}" for line in notes)
    return [*lines, *warning_lines(facts)]
