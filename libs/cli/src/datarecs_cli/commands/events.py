"""`datarecs events`: the events of a run, as lines or as CloudEvents."""

from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Invocation, Output, UsageFault, current

if TYPE_CHECKING:
    from datarecs_cli.client import Json

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Print the events of a run.")
RunOption = Annotated[
    str, typer.Option("--run", metavar="RUN", help="id, its first 8 characters, @latest:JOB")
]
FAMILY = "reconciliation"


@app.command("tail")
def tail(
    run: RunOption,
    *,
    kind: Annotated[
        str | None, typer.Option("--type", help="only events of these types, such as run.stage.*")
    ] = None,
    after: Annotated[int, typer.Option(min=0, help="only events after this number")] = 0,
) -> ExitCode:
    """Print all events of a run and follow it until it ends. -o jsonl prints CloudEvents."""
    from datarecs_cli.client import connect
    from datarecs_cli.follow import Dropped, Happened, follow
    from datarecs_cli.run_names import run_named

    invocation = current()
    with connect(invocation) as api:
        run_id = run_named(api, run)
        for seen in follow(api, run_id, after=after):
            match seen:
                case Happened(entry=entry) if _is_wanted(str(entry["type"]), kind):
                    _print(entry, invocation)
                case Dropped(reason=reason):
                    invocation.say(f"connection lost ({reason}); reconnecting")
    return ExitCode.DONE


def _is_wanted(name: str, glob: str | None) -> bool:
    """As in a webhook's filter; `run.stage.*` means `reconciliation.run.stage.*`."""
    from datarecs_core.webhooks.globs import glob_matches

    if glob is None:
        return True
    return glob_matches(glob, name) or glob_matches(f"{FAMILY}.{glob}", name)


def _print(entry: "Json", invocation: Invocation) -> None:
    from datarecs_cli.event_lines import event_line, print_cloud_event

    if invocation.output in (Output.JSON, Output.JSONL):
        print_cloud_event(entry)
    else:
        print(event_line(entry), flush=True)


@app.command("show")
def show(
    event: Annotated[str, typer.Argument(metavar="ID", help="id of the event, or its number")],
    *,
    run: RunOption,
) -> ExitCode:
    """Print one event of a run completely."""
    from datarecs_cli.client import connect
    from datarecs_cli.event_lines import print_cloud_event
    from datarecs_cli.output import as_yaml
    from datarecs_cli.run_names import run_named

    invocation = current()
    with connect(invocation) as api:
        run_id = run_named(api, run)
        after = 0
        while True:
            page = api.get("runs", run_id, "events", after=str(after))
            items = page.get("items")
            for entry in items if isinstance(items, list) else []:
                if event in (str(entry["id"]), str(int(str(entry["runsequence"])))):
                    if invocation.output in (Output.JSON, Output.JSONL):
                        print_cloud_event(entry)
                    else:
                        print(as_yaml(entry))
                    return ExitCode.DONE
            if page.get("next") is None:
                raise UsageFault(f"run {run_id} has no event {event}")
            after = int(str(page["next"]))
