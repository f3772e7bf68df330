"""`datarecs history JOB`: the results of the latest runs, and the start of the mismatches."""

from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Output, current
from datarecs_cli.output import Column, print_json, print_list, stdout_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datarecs_cli.client import Json

_COLUMNS = (
    Column(title="RUN", member="run_id"),
    Column(title="CREATED", member="created_at"),
    Column(title="OUTCOME", member="outcome"),
    Column(title="COMPARED", member="compared", number=True),
    Column(title="UNMATCHED", member="unmatched", number=True),
)


def history(
    job: Annotated[str, typer.Argument(metavar="JOB", help="name of the job")],
    *,
    last: Annotated[int, typer.Option("--last", min=1, max=1000, help="number of runs")] = 30,
) -> ExitCode:
    """Show the results of a job's latest runs, newest first, and since when it is UNMATCHED."""
    from datarecs_cli.client import connect
    from datarecs_runtime.environment import process_environment

    invocation = current()
    with connect(invocation) as api:
        runs = list(api.pages("runs", limit=last, params={"job": job}))
        if not runs:
            api.get("jobs", job)  # an unknown name raises an error
    rows = [_row(run) for run in runs]
    since = failing_since(rows)
    if invocation.is_json:
        print_json("history", {"job": job, "unmatched_since": since, "items": rows})
        return ExitCode.DONE
    if invocation.output in (None, Output.TABLE, Output.TEXT) and rows:
        words = stdout_words(process_environment())
        print(
            " ".join(words.sign(str(row["outcome"])) for row in reversed(rows)), " (newest right)"
        )
    print_list("history", _COLUMNS, rows, invocation)
    if not rows:
        invocation.say(f"no runs yet; start one with: datarecs run {job}")
    elif since is not None:
        invocation.say(f"UNMATCHED since {since['created_at']}, run {since['run_id']}")
    return ExitCode.DONE


def failing_since(rows: "Sequence[Json]") -> "Json | None":
    """The first UNMATCHED run after the last MATCHED one; rows are newest first."""
    first = None
    for row in rows:
        if row["outcome"] == "MATCHED":
            break
        if row["outcome"] == "UNMATCHED":
            first = row
    return first


def _row(run: "Json") -> "Json":
    summary = run.get("summary")
    numbers = summary if isinstance(summary, dict) else {}
    return {
        "run_id": run["run_id"],
        "created_at": run["created_at"],
        "outcome": run.get("result") or run["status"],
        "compared": numbers.get("rows_compared"),
        "unmatched": numbers.get("rows_unmatched"),
    }
