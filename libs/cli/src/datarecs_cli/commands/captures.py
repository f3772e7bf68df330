"""`datarecs capture`: start captures, follow them, read their trees, cancel them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Invocation, Output, UsageFault, current

if TYPE_CHECKING:
    from datarecs_cli.capture_flags import WantedCapture
    from datarecs_cli.client import Api, Json
    from datarecs_cli.output import Words

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Capture metadata and statistics of the tables of a connection.",
)
ConnectionArgument = Annotated[
    str, typer.Argument(metavar="CONNECTION", help="its name, or NAMESPACE/NAME")
]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="id of a capture or of its part")]
Full = Annotated[bool, typer.Option("--full", help="capture everything again")]
Incremental = Annotated[bool, typer.Option("--incremental", help="capture what is not captured")]
Current = Annotated[bool, typer.Option("--current", help="the newest snapshot of each table")]
LatestN = Annotated[int | None, typer.Option("--latest-n", metavar="N", help="the newest N")]
SnapshotIds = Annotated[
    str | None, typer.Option("--snapshot", metavar="ID[,ID]", help="snapshots of the catalogue")
]
Every = Annotated[bool, typer.Option("--all", help="every snapshot")]
Mode = Annotated[
    str | None, typer.Option(help="metadata-only, capture-only or metadata-and-capture")
]
Outputs = Annotated[
    str | None, typer.Option("--capture", metavar="WHAT", help="stats, index, or stats,index")
]
Namespaces = Annotated[
    list[str] | None, typer.Option("--namespace", help="only this namespace of the source")
]
Tables = Annotated[
    list[str] | None,
    typer.Option("--table", metavar="NAMESPACE.NAME", help="only this table; repeat it for more"),
]
View = Annotated[
    str | None, typer.Option("--view", metavar="NAMESPACE.NAME", help="only this view")
]
Columns = Annotated[
    str | None, typer.Option(help="all, a number of first columns, or names; default 32")
]
ClassOption = Annotated[
    str | None, typer.Option("--class", help="default, interactive, batch or heavy")
]
Lane = Annotated[str | None, typer.Option(help="name of a lane; workers without lanes take all")]


@app.command("start")
def start(
    connection: ConnectionArgument,
    *,
    full: Full = False,
    incremental: Incremental = False,
    current_only: Current = False,
    latest_n: LatestN = None,
    snapshot: SnapshotIds = None,
    every: Every = False,
    mode: Mode = None,
    capture: Outputs = None,
    namespace: Namespaces = None,
    table: Tables = None,
    view: View = None,
    columns: Columns = None,
    execution_class: ClassOption = None,
    lane: Lane = None,
    wait: Annotated[bool, typer.Option("--wait", help="wait until it has ended")] = False,
) -> ExitCode:
    """Start a capture; an equal one that has not ended is used instead."""
    typed = locals()
    from datarecs_cli.capture_flags import Flags, wanted_capture
    from datarecs_cli.client import connect
    from datarecs_cli.output import print_json

    invocation = current()
    wanted = wanted_capture(Flags.of(typed))
    with connect(invocation) as api:
        begun = _post(api, wanted)
        if begun["deduped"]:
            invocation.say("an equal capture is on its way already")
        if wait:
            shown = f"datarecs capture get {begun['job_id']}"
            invocation.say(f"waiting for capture {begun['job_id']}; show it with: {shown}")
            return _to_its_end(api, str(begun["job_id"]), invocation)
    if invocation.is_json:
        print_json("capture", {"started": begun})
    else:
        print(begun["job_id"])
    invocation.say(f"follow it with: datarecs capture get {begun['job_id']}")
    return ExitCode.DONE


@app.command("now")
def now(
    connection: ConnectionArgument,
    *,
    full: Full = False,
    incremental: Incremental = False,
    current_only: Current = False,
    latest_n: LatestN = None,
    snapshot: SnapshotIds = None,
    every: Every = False,
    mode: Mode = None,
    capture: Outputs = None,
    namespace: Namespaces = None,
    table: Tables = None,
    view: View = None,
    columns: Columns = None,
    execution_class: ClassOption = None,
    lane: Lane = None,
    max_wait: Annotated[str, typer.Option(metavar="SECONDS", help="1s to 60s")] = "10s",
) -> ExitCode:
    """Start a capture and wait for its end; one that takes longer is cancelled."""
    typed = locals()
    from datarecs_cli.capture_flags import Flags, wanted_capture
    from datarecs_cli.client import connect

    invocation = current()
    wanted = wanted_capture(Flags.of(typed))
    with connect(invocation) as api:
        return _print_now(_post(api, wanted, "now"), invocation)


def _post(api: "Api", wanted: "WantedCapture", *path: str) -> "Json":
    """With a key, so that a repetition after a lost answer starts nothing."""
    from datarecs_cli.capture_screens import JOBS
    from datarecs_cli.client import ApiRequest, path_of
    from datarecs_runtime.clock import UuidV7Ids

    wait_s = wanted.max_wait_s
    request = ApiRequest(
        method="POST",
        path=path_of(JOBS, *path),
        params={
            "namespace": wanted.namespace,
            **({} if wait_s is None else {"max_wait": str(wait_s)}),
        },
        headers={"Idempotency-Key": str(UuidV7Ids().new())},
        body=wanted.body,
        answer_after_s=float(wait_s or 0),
    )
    return api.send(request).json()


def _print_now(answer: "Json", invocation: Invocation) -> ExitCode:
    from datarecs_cli.capture_screens import ending_line, exit_code_of_capture
    from datarecs_cli.describing import part_of
    from datarecs_cli.output import print_json

    job = part_of(answer, "job")
    if invocation.is_json:
        print_json("capture", answer)
    else:
        print(ending_line(job, _words()))
        _say_what_failed(job, invocation)
    if answer["timed_out"]:
        rest = "another request started it, so it goes on" if answer["deduped"] else "cancelled"
        invocation.say(f"it had not ended in time; {rest}")
    return exit_code_of_capture(job)


def _to_its_end(api: "Api", job_id: str, invocation: Invocation) -> ExitCode:
    from datarecs_cli.capture_screens import exit_code_of_capture, wait_for_capture
    from datarecs_cli.screen import Screen
    from datarecs_runtime.environment import process_environment

    screen = Screen.of(invocation, process_environment())
    job = wait_for_capture(api, job_id, screen, _words(), limit_s=invocation.timeout_s)
    _print_job(job, invocation)
    return exit_code_of_capture(job)


def _words() -> "Words":
    from datarecs_cli.output import stdout_words
    from datarecs_runtime.environment import process_environment

    return stdout_words(process_environment())


@app.command("get")
def get(job: JobArgument) -> ExitCode:
    """Show a capture, or a part of it, with the sums over everything below it."""
    return _about_job(lambda api: _read(api, job))


@app.command("tree")
def tree(
    job: JobArgument,
    *,
    failed: Annotated[
        bool, typer.Option("--failed", help="only what failed, and what is above it")
    ] = False,
) -> ExitCode:
    """Show a capture and all its parts, with their states and counters."""
    from datarecs_cli.capture_screens import COLUMNS, JOBS, TREE_PAGE, failed_parts, tree_lines
    from datarecs_cli.client import ALL, connect
    from datarecs_cli.output import print_json, print_list

    invocation = current()
    with connect(invocation) as api:
        items = list(api.pages(JOBS, job, "tree", limit=ALL, params={}, page_size=TREE_PAGE))
    if failed:
        items = failed_parts(items)
        if not items:
            invocation.say("no part of it has failed")
    if invocation.output in (None, Output.TEXT):
        for line in tree_lines(items, _words()):
            print(line)
    elif invocation.is_json:
        print_json("capture_tree", {"items": items})
    else:
        print_list("capture_tree", COLUMNS, items, invocation)
    return ExitCode.DONE


@app.command("list")
def list_captures(
    *,
    connection: Annotated[
        str | None, typer.Option(help="only of this connection: NAME or NAMESPACE/NAME")
    ] = None,
    state: Annotated[str | None, typer.Option(help="only in this state, such as WAITING")] = None,
    kind: Annotated[str | None, typer.Option(help="only of this kind, such as PLAN_TABLE")] = None,
    parts: Annotated[bool, typer.Option("--parts", help="also the parts of captures")] = False,
    limit: Annotated[int, typer.Option(min=1, help="newest to list")] = 20,
) -> ExitCode:
    """List captures, newest first."""
    from datarecs_cli.capture_screens import COLUMNS, JOBS
    from datarecs_cli.client import connect
    from datarecs_cli.output import print_list

    invocation = current()
    where = {"roots_only": str(not parts and kind is None).lower()}
    if connection is not None:
        namespace, _, name = connection.rpartition("/")
        where |= {"connection": name, **({"namespace": namespace} if namespace else {})}
    where |= {name: one for name, one in (("state", state), ("kind", kind)) if one is not None}
    with connect(invocation) as api:
        items = list(api.pages(JOBS, limit=limit, params=where))
    print_list("capture_list", COLUMNS, items, invocation)
    if not items:
        invocation.say("no captures; start one with: datarecs capture start CONNECTION")
    return ExitCode.DONE


@app.command("cancel")
def cancel(
    job: JobArgument, *, reason: Annotated[str | None, typer.Option(help="why")] = None
) -> ExitCode:
    """Cancel a capture, or a part of it, with everything below."""
    body = {} if reason is None else {"reason": reason}
    return _about_job(lambda api: _act(api, job, "cancel", body))


@app.command("release")
def release(job: JobArgument) -> ExitCode:
    """Take a part of a capture from its worker, so that another worker starts it again."""
    return _about_job(lambda api: _act(api, job, "release", {}))


@app.command("status")
def status(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="name such as lake.default.orders, or id")
    ],
    snapshot: Annotated[
        str, typer.Argument(metavar="[SNAPSHOT]", help="id of a snapshot; default the current one")
    ] = "",
) -> ExitCode:
    """Show whether the statistics of a snapshot are finalized."""
    from datarecs_cli.client import connect
    from datarecs_cli.commands.catalog import table_id
    from datarecs_cli.output import as_yaml, print_json

    invocation = current()
    with connect(invocation) as api:
        place = ("catalog", "tables", table_id(api, table), "snapshots")
        if not snapshot:
            record = api.get(*place, "current").get("record")
            snapshot = str(record["snapshot_id"]) if isinstance(record, Mapping) else ""
        shown = {"snapshot_id": snapshot, **api.get(*place, snapshot, "capture-status")}
    if invocation.is_json:
        print_json("capture_status", {"object": shown})
    else:
        print(as_yaml(shown))
    return ExitCode.DONE


def _about_job(act: Callable[["Api"], "Json"]) -> ExitCode:
    from datarecs_cli.client import connect

    invocation = current()
    with connect(invocation) as api:
        _print_job(act(api), invocation)
    return ExitCode.DONE


def _read(api: "Api", job: str) -> "Json":
    from datarecs_cli.capture_screens import JOBS

    return api.get(JOBS, job)


def _act(api: "Api", job: str, verb: str, body: "Json") -> "Json":
    from datarecs_cli.capture_screens import JOBS
    from datarecs_cli.client import ApiRequest, path_of
    from datarecs_runtime.clock import UuidV7Ids

    key = {"Idempotency-Key": str(UuidV7Ids().new())}
    path = path_of(JOBS, job, verb)
    return api.send(ApiRequest(method="POST", path=path, headers=key, body=body)).json()


def _print_job(job: "Json", invocation: Invocation) -> None:
    from datarecs_cli.capture_screens import ending_line
    from datarecs_cli.output import as_yaml, print_json

    match invocation.output:
        case Output.JSON:
            print_json("capture", {"object": job})
        case Output.YAML:
            print(as_yaml(job))
        case Output.NAME:
            print(job["job_id"])
        case None | Output.TEXT | Output.TABLE:
            print(ending_line(job, _words()))
            _say_what_failed(job, invocation)
        case other:
            raise UsageFault(f"-o {other} is not a format of this command; write json or yaml")


def _say_what_failed(job: "Json", invocation: Invocation) -> None:
    from datarecs_cli.capture_screens import failed_hint

    if hint := failed_hint(job):
        invocation.say(hint)
