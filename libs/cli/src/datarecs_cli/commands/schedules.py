"""`datarecs schedule`: the next times of a schedule, and what became of its times."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.declared_files import STDIN
from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Invocation, Output, UsageFault, current
from datarecs_cli.output import Column
from datarecs_core.resources.resource import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from datarecs_cli.client import Json
    from datarecs_core.scheduling.schedule import Schedule

SCHEDULES = "schedules"
_TIMES = (
    Column(title="TIME", member="time"),
    Column(title="UTC", member="utc"),
    Column(title="NOTE", member="note"),
)
_HISTORY = (
    Column(title="TIME", member="time"),
    Column(title="OUTCOME", member="outcome"),
    Column(title="RUN", member="run"),
    Column(title="REASON", member="reason"),
)
app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Show the times of a schedule.")


@app.callback()
def schedule() -> None:
    """Show the times of a schedule."""


@app.command("preview")
def preview(
    target: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="a stored schedule, or a file with one")
    ],
    *,
    namespace: Annotated[str, typer.Option(help="namespace of the schedule")] = DEFAULT_NAMESPACE,
) -> ExitCode:
    """Show the next ten times of a schedule, and what clock changes do to them.

    For a file, no server is needed; an interval without `start_at` then begins now.
    """
    from datarecs_cli.commands.runs import is_file

    invocation = current()
    if is_file(target):
        declared = _declared(target, invocation)
        if declared is None:
            return ExitCode.USAGE
        _print(_preview_here(declared), invocation)
        return ExitCode.DONE
    from datarecs_cli.client import ApiRequest, connect, path_of

    path = path_of(SCHEDULES, target, "actions", "preview")
    with connect(invocation) as api:
        request = ApiRequest(method="POST", path=path, params={"namespace": namespace})
        _print(api.send(request).json(), invocation)
    return ExitCode.DONE


@app.command("history")
def history(
    name: Annotated[str, typer.Argument(metavar="NAME", help="a stored schedule")],
    *,
    namespace: Annotated[str, typer.Option(help="namespace of the schedule")] = DEFAULT_NAMESPACE,
    limit: Annotated[int, typer.Option(min=1, max=200, help="newest times to show")] = 20,
) -> ExitCode:
    """Show what became of the newest times of a schedule, and when the next run starts."""
    from datarecs_cli.client import ApiRequest, connect, path_of
    from datarecs_cli.output import print_json, print_list

    invocation = current()
    params = {"namespace": namespace, "limit": str(limit)}
    with connect(invocation) as api:
        path = path_of(SCHEDULES, name, "history")
        shown = api.send(ApiRequest(method="GET", path=path, params=params)).json()
    if invocation.output is Output.JSON:
        print_json("schedule_history", {"object": shown})
        return ExitCode.DONE
    items = shown["items"]
    rows = [_tick_row(one) for one in items] if isinstance(items, list) else []
    print_list("schedule_history", _HISTORY, rows, invocation)
    starts = shown["next_start_at"]
    invocation.say(f"next run: {_instant(starts)}" if starts else "no next run: suspended or ended")
    return ExitCode.DONE


def _tick_row(tick: "Json") -> "Json":
    from datarecs_cli.describing import times_of

    return {
        "name": tick["fire_time"],
        "time": times_of(tick),
        "outcome": tick["outcome"],
        "run": tick["run_id"],
        "reason": tick["reason"],
    }


def _instant(value: object) -> str:
    return f"{datetime.fromisoformat(str(value)):%Y-%m-%d %H:%M:%S} UTC"


def _declared(path: str, invocation: Invocation) -> "Schedule | None":
    """The schedule of the file; None if it has faults, which are printed."""
    from datarecs_cli.declared_files import check_files, refuse_faults
    from datarecs_core.scheduling.schedule import Schedule

    files = check_files([path])
    if refuse_faults(files, invocation):
        return None
    specs = [one.spec for file in files for one in file.documents]
    schedules = [one for one in specs if isinstance(one, Schedule)]
    if len(schedules) != 1:
        shown = "stdin" if path == STDIN else path
        raise UsageFault(f"{shown} declares {len(schedules)} schedules; name a file with one")
    return schedules[0]


def _preview_here(declared: "Schedule") -> "Json":
    """As the server answers."""
    from datarecs_core.scheduling.preview import reasons_without_runs
    from datarecs_core.values import instant_text
    from datarecs_runtime.clock import SystemClock
    from datarecs_specs.cron_times import CronTimes

    now = SystemClock().now()
    times = CronTimes().preview(declared, created_at=now, after=now)
    return {
        "times": [
            {
                "fire_time": instant_text(one.fire_time),
                "local": one.local.isoformat(),
                "note": one.note,
            }
            for one in times
        ],
        "held": list(reasons_without_runs(declared, has_times=bool(times))),
    }


def _print(made: "Json", invocation: Invocation) -> None:
    from datarecs_cli.output import print_json, print_list

    if invocation.output is Output.JSON:
        print_json("schedule", {"object": made})
        return
    times, held = made["times"], made["held"]
    rows = [_row(one) for one in times] if isinstance(times, list) else []
    print_list("schedule", _TIMES, rows, invocation)
    for reason in held if isinstance(held, list) else []:
        invocation.say(f"no run starts: {reason}")


def _row(one: "Json") -> "Json":
    """Times for people, to the second."""
    fire_time = datetime.fromisoformat(str(one["fire_time"]))
    local = datetime.fromisoformat(str(one["local"]))
    return {
        "name": f"{fire_time:%Y-%m-%dT%H:%M:%SZ}",
        "time": f"{local:%a %Y-%m-%d %H:%M:%S %z}",
        "utc": f"{fire_time:%Y-%m-%d %H:%M:%S}",
        "note": one["note"],
    }
