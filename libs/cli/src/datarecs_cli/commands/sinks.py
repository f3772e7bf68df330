"""`datarecs sink`: list sinks, show how far they are, and steer them."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Output, UsageFault, current
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind
from datarecs_core.sink.decisions import WaitingRecords

if TYPE_CHECKING:
    from datarecs_cli.client import Json
    from datarecs_cli.invocation import Invocation

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Read and steer sinks, which write records of Kafka topics into Iceberg tables.",
)
SINKS = "sink-tables"
Name = Annotated[str, typer.Argument(metavar="NAME", help="name of the sink")]
Namespace = Annotated[str, typer.Option("--namespace", help="namespace in your tenant")]


@app.command("ls")
def ls(
    *,
    namespace: Annotated[
        str | None, typer.Option(help="another namespace than default; * for all")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="most rows to list")] = 50,
) -> ExitCode:
    """List sinks with their state."""
    from datarecs_cli.client import connect
    from datarecs_cli.listing import print_objects
    from datarecs_specs.kinds import KINDS

    where = {} if namespace is None else {"namespace": namespace}
    invocation = current()
    with connect(invocation) as api:
        print_objects(api, KINDS[Kind.SINK_TABLE], where, limit=limit, invocation=invocation)
    return ExitCode.DONE


@app.command("status")
def status(name: Name, *, namespace: Namespace = DEFAULT_NAMESPACE) -> ExitCode:
    """Show a sink with its conditions, its figures and the partitions that it reads."""
    from datarecs_cli.client import ALL, connect
    from datarecs_cli.describing import as_document, lines_of, read_described
    from datarecs_cli.output import as_yaml, print_json
    from datarecs_cli.sink_screens import partition_lines
    from datarecs_specs.kinds import KINDS

    invocation = current()
    with connect(invocation) as api:
        described = read_described(api, KINDS[Kind.SINK_TABLE], name, namespace=namespace)
        where = {"namespace": namespace}
        partitions = list(api.pages(SINKS, name, "partitions", limit=ALL, params=where))
    document = {**as_document(described), "partitions": partitions}
    match invocation.output:
        case Output.JSON:
            print_json("sink_status", document)
        case Output.YAML:
            print(as_yaml(document))
        case None | Output.TEXT | Output.TABLE:
            print("\n".join([*lines_of(described), *partition_lines(partitions)]))
        case other:
            raise UsageFault(f"-o {other} is not a format of this command; write json or yaml")
    return ExitCode.DONE


@app.command("commits")
def commits(
    name: Name,
    *,
    limit: Annotated[int, typer.Option(min=1, help="newest to list")] = 20,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> ExitCode:
    """List the commits of a sink, newest first."""
    from datarecs_cli.client import connect
    from datarecs_cli.output import print_list
    from datarecs_cli.sink_screens import COMMITS, commit_row

    invocation = current()
    with connect(invocation) as api:
        where = {"namespace": namespace}
        items = list(api.pages(SINKS, name, "commits", limit=limit, params=where))
    is_whole = invocation.output in (Output.JSON, Output.JSONL, Output.YAML)
    rows = items if is_whole else [commit_row(one) for one in items]
    print_list("sink_commits", COMMITS, rows, invocation)
    if not items:
        invocation.say(f"no commits yet; see: datarecs sink status {name}")
    return ExitCode.DONE


@app.command("pause")
def pause(name: Name, *, namespace: Namespace = DEFAULT_NAMESPACE) -> ExitCode:
    """Let a sink commit what it has read, and hold."""
    return _act("pause", name, namespace, "pauses after its next commit")


@app.command("resume")
def resume(name: Name, *, namespace: Namespace = DEFAULT_NAMESPACE) -> ExitCode:
    """Let a paused sink read again."""
    return _act("resume", name, namespace, "resumed")


@app.command("commit-now")
def commit_now(name: Name, *, namespace: Namespace = DEFAULT_NAMESPACE) -> ExitCode:
    """Commit what a sink has read now, without waiting for the interval."""
    return _act("commit-now", name, namespace, "commit requested")


@app.command("retry")
def retry(name: Name, *, namespace: Namespace = DEFAULT_NAMESPACE) -> ExitCode:
    """Begin the tasks of a sink again that have stopped because of an error."""
    return _act("retry", name, namespace, "stopped tasks begin again")


@app.command("accept-table")
def accept_table(
    name: Name,
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="namespace and name, such as sales.orders")
    ],
    *,
    records: Annotated[
        WaitingRecords,
        typer.Option(help="records that the table does not hold: commit them, or leave_out"),
    ],
    catalog: Annotated[
        str | None, typer.Option(help="connection of the catalog, if two have such a table")
    ] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> ExitCode:
    """Let a sink go on with a table that was rolled back, dropped or created again.

    Records that are left out are in no table, for good. `datarecs sink status` says what was done.
    """
    body = {"table": table, "records": records.value}
    if catalog is not None:
        body["catalog"] = catalog
    outcome = f"decides about table {table} next; see: datarecs sink status {name}"
    return _act("accept-table", name, namespace, outcome, body=body)


@app.command("reset")
def reset(
    name: Name,
    *,
    position: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC/PARTITION=OFFSET", help="where to go on; repeat it for more"),
    ] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    yes: Annotated[bool, typer.Option("--yes", help="do not prompt")] = False,
) -> ExitCode:
    """Let a sink forget its control topic, and go on at positions.

    Partitions that are not named stay where they are; without positions every one goes on at what
    the tables hold. An earlier position writes records again, a later one leaves records out: both
    are shown before anything is done.
    """
    from datarecs_cli.client import ALL, connect
    from datarecs_cli.sink_screens import positions_of, reset_lines

    invocation, positions = current(), positions_of(position or [])
    with connect(invocation) as api:
        where = {"namespace": namespace}
        partitions = list(api.pages(SINKS, name, "partitions", limit=ALL, params=where))
    for line in reset_lines(positions, partitions):
        invocation.say(line)
    if not yes:
        _confirm_reset(name, invocation)
    body = {"positions": positions}
    return _act("reset", name, namespace, "goes on from the new positions", body=body)


def _confirm_reset(name: str, invocation: "Invocation") -> None:
    if invocation.no_input or not sys.stdin.isatty():
        raise UsageFault(f"reset {name}: without a terminal, add --yes")
    if not typer.confirm(f"reset sink-table/{name}?", err=True):
        raise UsageFault("not reset")


@app.command("proof")
def proof(
    name: Name,
    *,
    cron: Annotated[
        str | None, typer.Option(help="also print a schedule with these times, such as @daily")
    ] = None,
    timezone: Annotated[str, typer.Option(help="time zone of --cron")] = "UTC",
    window: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="compare only the newest records, such as those of P7D; less than the retention "
            "of the topic",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--except", metavar="COLUMN", help="do not compare it; repeat it for more"),
    ] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> ExitCode:
    """Print the job that compares the topic of a sink with its table, for `apply`.

    The topic is read up to what the table has, so a proof may run while the sink writes.
    """
    from datarecs_cli.client import connect
    from datarecs_cli.output import print_json
    from datarecs_cli.sink_proof import proof_documents, window_of, yaml_of
    from datarecs_core.sink.proof import ProofOptions

    invocation = current()
    options = ProofOptions(
        cron=cron,
        timezone=timezone,
        window=None if window is None else window_of(window),
        excluded=tuple(exclude or ()),
    )
    with connect(invocation) as api:
        documents = proof_documents(api.get(SINKS, name, namespace=namespace), options)
    if invocation.is_json:
        print_json("sink_proof", {"documents": documents})
    else:
        print(yaml_of(documents))
    return ExitCode.DONE


def _act(
    verb: str, name: str, namespace: str, outcome: str, *, body: "Json | None" = None
) -> ExitCode:
    from datarecs_cli.client import connect
    from datarecs_cli.endpoint_actions import post
    from datarecs_cli.output import print_json

    invocation = current()
    with connect(invocation) as api:
        where = {"namespace": namespace}
        shown = post(api, SINKS, name, "actions", verb, params=where, body=body or {})
    if invocation.output is Output.JSON:
        print_json("sink", {"object": shown})
    else:
        print(f"sink-table/{name} {outcome}")
    return ExitCode.DONE
