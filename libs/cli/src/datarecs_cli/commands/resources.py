"""`datarecs apply`, `get`, `changes`, `delete`: resources on the server."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Invocation, Output, UsageFault, current
from datarecs_core.resources.resource import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from datarecs_cli.applying import Applied
    from datarecs_cli.client import Api
    from datarecs_core.resources.declared import Declared
    from datarecs_specs.kinds import KindEntry

Namespace = Annotated[str, typer.Option("--namespace", help="namespace in your tenant")]
RUNS = frozenset({"run", "runs"})
LIMIT = 50
_NOT_OF_RUNS = "-w, -l, --namespace and --export are for resources; see datarecs watch RUN"


def apply(
    files: Annotated[
        list[str], typer.Option("-f", "--file", metavar="FILE", help="file or folder; - for stdin")
    ],
    *,
    dry_run: Annotated[
        str | None,
        typer.Option(help="client: only check the files; server: show the changes"),
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="exit with 1 if something would change")
    ] = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune", help="delete resources with the labels of -l that no file declares"
        ),
    ] = False,
    label_selector: Annotated[
        str | None,
        typer.Option("-l", "--label-selector", help="with --prune: the set, such as set=books"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="with --prune: do not prompt")] = False,
    secret_out: Annotated[
        Path | None, typer.Option(help="file for a new signing secret, instead of stderr")
    ] = None,
) -> ExitCode:
    """Create or replace the resources of the files; if one file has a fault, nothing is sent."""
    from datarecs_cli.applying import check_for_server
    from datarecs_cli.client import connect
    from datarecs_cli.secret_output import hand_over
    from datarecs_reports.figures import counted

    _check_apply(dry_run, exit_code=exit_code, prune=prune, selector=label_selector, yes=yes)
    invocation = current()
    declared = check_for_server(files, invocation)
    if not declared:
        return ExitCode.USAGE
    if dry_run == "client":
        invocation.say(f"{counted(len(declared), 'object')} without faults; nothing was sent")
        return ExitCode.DONE
    with connect(invocation) as api:
        pruning = _Pruning(label_selector, is_confirmed=yes) if label_selector else None
        work = _applied(api, declared, pruning, is_dry=dry_run is not None)
        applied = [_report_applied(one, invocation) for one in work]
    if invocation.is_json:
        _print_applied(applied)
    hand_over([one.secret for one in applied if one.secret], secret_out, invocation)
    refused = [one.refusal for one in applied if one.refusal is not None]
    if refused:
        return refused[0].exit_code
    changed = dry_run is not None and any(one.outcome != "unchanged" for one in applied)
    return ExitCode.DIFFERENT if exit_code and changed else ExitCode.DONE


def _check_apply(
    dry_run: str | None, *, exit_code: bool, prune: bool, selector: str | None, yes: bool
) -> None:
    if dry_run not in {None, "client", "server"}:
        raise UsageFault(f"--dry-run {dry_run}: write client or server")
    if dry_run == "client" and exit_code:
        raise UsageFault("--exit-code needs the server: use --dry-run server")
    if prune and not selector:
        raise UsageFault("--prune needs the set: add -l, such as -l set=books")
    if prune and dry_run == "client":
        raise UsageFault("--prune needs the server: use --dry-run server")
    if not prune and (selector is not None or yes):
        raise UsageFault("-l and --yes are for --prune")


class _Pruning(NamedTuple):
    selector: str
    is_confirmed: bool


def _applied(
    api: "Api", declared: Sequence["Declared"], pruning: _Pruning | None, *, is_dry: bool
) -> Iterator["Applied"]:
    """Apply or compare, then prune; after a refusal nothing is pruned."""
    from datarecs_cli.applying import Applied, Outcome, apply_each, compare_each
    from datarecs_cli.pruning import check_set, leftovers, prune_each

    unwanted = []
    if pruning is not None:
        check_set(pruning.selector, declared)
        unwanted = leftovers(api, pruning.selector, declared)
        _list_unwanted([one.name for one in unwanted], pruning, is_dry=is_dry)
    is_refused = False
    for one in (compare_each if is_dry else apply_each)(api, declared):
        is_refused = is_refused or one.refusal is not None
        yield one
    if is_dry:
        yield from (Applied(name=one.name, outcome=Outcome.PRUNED) for one in unwanted)
    elif not is_refused:
        yield from prune_each(api, unwanted)


def _list_unwanted(names: Sequence[str], pruning: _Pruning, *, is_dry: bool) -> None:
    if not names or is_dry:
        return
    invocation = current()
    for name in names:
        invocation.say(f"no file declares {name}: it will be deleted")
    if not pruning.is_confirmed:
        _confirm(", ".join(names), invocation)


def _report_applied(one: "Applied", invocation: Invocation) -> "Applied":
    """Print an outcome as soon as it is known."""
    from datarecs_cli.error_text import as_text

    if not invocation.is_json:
        print(f"{one.name} {one.outcome}", flush=True)
        for line in one.changes:
            print(f"  {line}")
    if one.refusal is not None:
        print(as_text(one.refusal), file=sys.stderr)
    return one


def _print_applied(applied: Sequence["Applied"]) -> None:
    from datarecs_cli.output import print_json

    items = [
        {
            "name": one.name,
            "outcome": one.outcome,
            **({"changes": list(one.changes)} if one.changes else {}),
            **({"error": str(one.refusal)} if one.refusal else {}),
        }
        for one in applied
    ]
    print_json("apply", {"items": items})


def get(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="runs, jobs, schedules, connections, sinks, captures, webhook-endpoints, "
            "notification-rules, retention-policies",
        ),
    ],
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="name of a resource, or a run")
    ] = None,
    *,
    namespace: Annotated[
        str | None, typer.Option(help="another namespace than default; * for all")
    ] = None,
    label_selector: Annotated[
        str | None,
        typer.Option("-l", "--label-selector", help="only these labels, such as team=finance,!old"),
    ] = None,
    watch: Annotated[
        bool, typer.Option("-w", "--watch", help="print each change until Ctrl-C")
    ] = False,
    export: Annotated[
        bool,
        typer.Option("--export", help="leave out the server's fields, so that you can apply it"),
    ] = False,
    job: Annotated[str | None, typer.Option(help="only runs of this job")] = None,
    status: Annotated[
        str | None, typer.Option(help="only runs in this status, such as ERRORED")
    ] = None,
    result: Annotated[
        str | None, typer.Option(help="only runs with this result: MATCHED or UNMATCHED")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="only runs created since this time, such as 2026-01-31T12:00:00Z"),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="most rows to list", show_default="50; all with --export"),
    ] = None,
) -> ExitCode:
    """List resources or runs, show one, or watch resources."""
    of_runs = _without_none(job=job, status=status, result=result, since=since)
    where = _without_none(namespace=namespace, label_selector=label_selector)
    if kind.casefold() in RUNS:
        if watch or where or export:
            raise UsageFault(_NOT_OF_RUNS)
        return _get_runs(name, of_runs, limit or LIMIT)
    if of_runs:
        raise UsageFault(f"--{next(iter(of_runs))} is only for `datarecs get runs`")
    entry = entry_of(kind)
    if watch:
        _refuse_with_watch(limit=limit is not None, export=export)
        return _watch(entry, name, where)
    if name is None:
        return _get_objects(entry, where, limit, export=export)
    return _get_object(entry, name, where, export=export)


def _get_runs(name: str | None, where: Mapping[str, str], limit: int) -> ExitCode:
    from datarecs_cli.client import connect
    from datarecs_cli.listing import print_run, print_runs

    invocation = current()
    with connect(invocation) as api:
        if name is None:
            print_runs(api, where, limit, invocation)
        else:
            print_run(api, name, invocation)
    return ExitCode.DONE


def _get_objects(
    entry: "KindEntry", where: Mapping[str, str], limit: int | None, *, export: bool
) -> ExitCode:
    from datarecs_cli.client import ALL, connect
    from datarecs_cli.listing import export_objects, print_objects

    invocation = current()
    with connect(invocation) as api:
        if export:
            export_objects(api, entry, where, limit=limit or ALL, invocation=invocation)
        else:
            print_objects(api, entry, where, limit=limit or LIMIT, invocation=invocation)
    return ExitCode.DONE


def _get_object(
    entry: "KindEntry", name: str, where: Mapping[str, str], *, export: bool
) -> ExitCode:
    from datarecs_cli.client import connect
    from datarecs_cli.listing import print_object

    if "label_selector" in where:
        raise UsageFault("-l selects from a list: leave out NAME, or add -w")
    namespace = where.get("namespace", DEFAULT_NAMESPACE)
    invocation = current()
    with connect(invocation) as api:
        resource = api.get(entry.path, name, namespace=namespace)
        print_object(resource, invocation, export=export)
    return ExitCode.DONE


def _watch(entry: "KindEntry", name: str | None, where: Mapping[str, str]) -> ExitCode:
    """Ends only with Ctrl-C or an error."""
    from datarecs_cli.client import connect
    from datarecs_cli.listing import print_watch
    from datarecs_cli.object_watch import Scope

    invocation = current()
    with connect(invocation) as api:
        print_watch(api, entry, Scope(path=entry.path, params=where, name=name), invocation)
    return ExitCode.DONE


def _without_none(**options: str | None) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}


def _refuse_with_watch(**options: bool) -> None:
    options["timeout"] = current().timeout_s is not None
    for name, is_set in options.items():
        if is_set:
            raise UsageFault(f"--{name} has no effect with --watch: leave it out")


def changes(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="job, schedule, connection, sink, capture, webhook-endpoint, notification-rule, "
            "retention-policy",
        ),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="name of the resource")],
    *,
    namespace: Namespace = DEFAULT_NAMESPACE,
    limit: Annotated[int, typer.Option(min=1, help="most rows to list")] = 20,
) -> ExitCode:
    """Show who changed a resource, when and which parts, newest first, for 14 days."""
    from datarecs_cli.client import connect
    from datarecs_cli.listing import print_changes

    invocation, entry = current(), entry_of(kind)
    with connect(invocation) as api:
        pages = api.pages(entry.path, name, "changes", limit=limit, params={"namespace": namespace})
        print_changes(list(pages), invocation)
    return ExitCode.DONE


def delete(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="job, schedule, connection, sink, capture, webhook-endpoint, notification-rule, "
            "retention-policy",
        ),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="name of the resource")],
    *,
    namespace: Namespace = DEFAULT_NAMESPACE,
    yes: Annotated[bool, typer.Option("--yes", help="do not prompt")] = False,
) -> ExitCode:
    """Delete one resource."""
    from datarecs_cli.applying import shown_name
    from datarecs_cli.client import ApiRequest, connect, path_of

    invocation, entry = current(), entry_of(kind)
    shown = shown_name(entry, name)
    if not yes:
        _confirm(shown, invocation)
    request = ApiRequest(
        method="DELETE",
        path=path_of(entry.path, name),
        params={"namespace": namespace},
        headers={"If-Match": "*"},
    )
    with connect(invocation) as api:
        answer = api.send(request)
    outcome = "deleted" if answer.status == 200 else "deleting"  # noqa: PLR2004  202: finalizers are at work
    if invocation.output is Output.JSON:
        from datarecs_cli.output import print_json

        print_json("delete", {"name": shown, "outcome": outcome})
    else:
        print(f"{shown} {outcome}")
    if outcome == "deleting":
        inside = "" if namespace == DEFAULT_NAMESPACE else f" --namespace {namespace}"
        invocation.say(f"what it waits for: datarecs describe {entry.alias} {name}{inside}")
    return ExitCode.DONE


def _confirm(shown: str, invocation: Invocation) -> None:
    if invocation.no_input or not sys.stdin.isatty():
        raise UsageFault(f"delete {shown}: without a terminal, add --yes")
    if not typer.confirm(f"delete {shown}?", err=True):
        raise UsageFault("not deleted")


def entry_of(word: str) -> "KindEntry":
    """The kind that a word names; raises UsageFault for another word."""
    from datarecs_specs.kinds import KINDS, kind_named

    entry = kind_named(word)
    if entry is None:
        known = ", ".join([*(one.path for one in KINDS.values()), "runs"])
        raise UsageFault(f"unknown kind {word!r}; known: {known}")
    return entry
