"""`datarecs describe`, `wait`, `reconcile`, `pause`, `resume`: what controllers report and do."""

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Invocation, Output, UsageFault, current
from datarecs_core.resources.check_conditions import condition_types
from datarecs_core.resources.reconciling import RECONCILED
from datarecs_core.resources.resource import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from datarecs_cli.client import Api, Json
    from datarecs_specs.kinds import KindEntry

KindWord = Annotated[str, typer.Argument(metavar="KIND", help="kind of the resource, such as job")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="name of the resource")]
Namespace = Annotated[str, typer.Option("--namespace", help="namespace in your tenant")]
DELETED = "delete"
POLL = timedelta(seconds=1)
NOT_FOUND = 404
_CONDITION = re.compile(r"condition=([A-Za-z]+)(?:=(True|False|Unknown))?", re.IGNORECASE)


class Awaited(NamedTuple):
    """A condition with its status."""

    type: str
    status: str


def describe(kind: KindWord, name: Name, *, namespace: Namespace = DEFAULT_NAMESPACE) -> ExitCode:
    """Show a resource with its conditions, and what depends on it."""
    from datarecs_cli.client import connect
    from datarecs_cli.commands.resources import entry_of
    from datarecs_cli.describing import as_document, lines_of, read_described
    from datarecs_cli.output import as_yaml, print_json

    invocation = current()
    with connect(invocation) as api:
        described = read_described(api, entry_of(kind), name, namespace=namespace)
    match invocation.output:
        case Output.JSON:
            print_json("describe", as_document(described))
        case Output.YAML:
            print(as_yaml(as_document(described)))
        case None | Output.TEXT | Output.TABLE:
            print("\n".join(lines_of(described)))
        case other:
            raise UsageFault(f"-o {other} is not a format of this command; write json or yaml")
    return ExitCode.DONE


def wait(
    kind: KindWord,
    name: Name,
    *,
    until: Annotated[
        str, typer.Option("--for", metavar="CLAIM", help="condition=Ready[=False], or delete")
    ],
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> ExitCode:
    """Wait until a condition holds for the current declaration, or until the resource is gone.

    Without the flag --timeout it waits without limit.
    """
    from datarecs_cli.client import connect
    from datarecs_cli.commands.resources import entry_of
    from datarecs_specs.shapes import NAME

    invocation, entry, awaited = current(), entry_of(kind), _awaited(until)
    _check_awaited(entry, awaited)
    if re.fullmatch(NAME.regex, name, re.ASCII) is None:
        raise UsageFault(f"{name!r} is no name: write {NAME.words}")
    with connect(invocation) as api:
        limit_s = invocation.timeout_s
        ends = None if limit_s is None else api.clock.monotonic() + limit_s
        while True:
            stands = _stands(api, entry, name, namespace=namespace, awaited=awaited)
            if stands is None:
                invocation.say(f"{entry.path.removesuffix('s')}/{name}: {until} holds")
                return ExitCode.DONE
            if ends is not None and api.clock.monotonic() >= ends:
                _say_late(invocation, entry, name, stands)
                return ExitCode.ERRORED
            api.clock.wait(POLL)


def _awaited(text: str) -> Awaited | None:
    """None: the deletion."""
    if text == DELETED:
        return None
    matched = _CONDITION.fullmatch(text)
    if matched is None:
        raise UsageFault(f"--for {text}: write condition=Ready, condition=Ready=False or delete")
    return Awaited(matched[1], (matched[2] or "True").capitalize())


def _check_awaited(entry: "KindEntry", awaited: Awaited | None) -> None:
    """A condition that no controller writes would be awaited for ever."""
    if awaited is None:
        return
    known = condition_types(entry.kind)
    if not known:
        raise UsageFault(f"{entry.path} have no conditions; only --for delete can be awaited")
    if awaited.type.casefold() not in {one.casefold() for one in known}:
        raise UsageFault(
            f"{entry.path} have no condition {awaited.type}; they have {', '.join(sorted(known))}"
        )


def _stands(
    api: "Api", entry: "KindEntry", name: str, *, namespace: str, awaited: Awaited | None
) -> str | None:
    """None when the claim holds; else what holds instead."""
    from datarecs_cli.refusals import RefusedError

    try:
        resource = api.get(entry.path, name, namespace=namespace)
    except RefusedError as refused:
        if awaited is None and refused.status == NOT_FOUND:
            return None
        raise
    return "it still exists" if awaited is None else _missing(resource, awaited)


def _missing(resource: "Json", awaited: Awaited) -> str | None:
    from datarecs_cli.describing import part_of

    status, metadata = part_of(resource, "status"), part_of(resource, "metadata")
    conditions = status.get("conditions")
    if status.get("observed_generation") != metadata.get("generation"):
        return "its controller has not decided on the current declaration"
    for one in conditions if isinstance(conditions, list) else []:
        if str(one.get("type")).casefold() == awaited.type.casefold():
            if one.get("status") == awaited.status:
                return None
            message = f": {one['message']}" if one.get("message") else ""
            return f"{one['type']} is {one.get('status')}, {one.get('reason')}{message}"
    return f"it has no condition {awaited.type}"


def _say_late(invocation: Invocation, entry: "KindEntry", name: str, stands: str) -> None:
    noun = entry.path.removesuffix("s")
    invocation.say(f"{noun}/{name}: not within {invocation.timeout_s:g} s; {stands}")
    invocation.say(f"  see  datarecs describe {noun} {name}")


def reconcile(kind: KindWord, name: Name, *, namespace: Namespace = DEFAULT_NAMESPACE) -> ExitCode:
    """Let the controller check a resource now, also after an error that it does not repeat."""
    return _act("reconcile", kind, name, namespace, "reconcile requested")


def pause(kind: KindWord, name: Name, *, namespace: Namespace = DEFAULT_NAMESPACE) -> ExitCode:
    """Let the controller leave a resource alone, until `resume` or an apply without the pause."""
    return _act("pause", kind, name, namespace, "paused")


def resume(kind: KindWord, name: Name, *, namespace: Namespace = DEFAULT_NAMESPACE) -> ExitCode:
    """Let the controller act on a paused resource again."""
    return _act("resume", kind, name, namespace, "resumed")


def _act(action: str, kind: str, name: str, namespace: str, outcome: str) -> ExitCode:
    from datarecs_cli.client import connect
    from datarecs_cli.commands.resources import entry_of
    from datarecs_cli.endpoint_actions import post
    from datarecs_cli.output import print_json

    invocation, entry = current(), entry_of(kind)
    if entry.kind not in RECONCILED:
        known = ", ".join(sorted(str(one) for one in RECONCILED))
        raise UsageFault(f"{action} {entry.path}: no controller acts on them; on: {known}")
    with connect(invocation) as api:
        shown = post(
            api, entry.path, name, "actions", action, params={"namespace": namespace}, body={}
        )
    if invocation.output is Output.JSON:
        print_json(action, {"object": shown})
    else:
        print(f"{entry.path.removesuffix('s')}/{name} {outcome}")
    return ExitCode.DONE
