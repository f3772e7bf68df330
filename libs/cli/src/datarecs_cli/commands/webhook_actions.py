"""`datarecs webhook test`, `resend`, `recover`, `enable`, `disable`, `rotate-secret`.

These commands change something; the receiver and the list are in `webhooks`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.commands.webhooks import app
from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Invocation, UsageFault, current
from datarecs_core.resources.resource import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from datarecs_cli.client import Json

Endpoint = Annotated[str, typer.Option(metavar="NAME", help="name of the WebhookEndpoint")]
Project = Annotated[str, typer.Option(help="namespace of the endpoint")]
PLACE = "webhook-endpoints"


@app.command("test")
def send_test(
    *,
    endpoint: Endpoint,
    namespace: Project = DEFAULT_NAMESPACE,
    event_type: Annotated[
        str | None, typer.Option("--type", help="send the example event of this type")
    ] = None,
) -> ExitCode:
    """Send a test event and wait for the answer. A disabled endpoint also receives it."""
    from datarecs_cli.client import connect
    from datarecs_cli.endpoint_actions import WAIT, closed_action, ended_delivery, post

    invocation = current()
    body: Json = {} if event_type is None else {"example": _full(event_type)}
    with connect(invocation) as api:
        where = {"namespace": namespace}
        action = post(api, PLACE, endpoint, "test", params=where, body=body)
        action = closed_action(api, action, limit=WAIT)
        first = action.get("first_delivery")
        if not isinstance(first, str):
            invocation.say(
                "the test event has not been sent yet; check that the webhook-service runs"
            )
            return ExitCode.ERRORED
        delivery = ended_delivery(api, first, limit=WAIT)
    _print_test(delivery, invocation)
    return ExitCode.DONE if _last_attempt(delivery).get("outcome") == "OK" else ExitCode.ERRORED


@app.command("resend")
def resend(
    ids: Annotated[
        list[str], typer.Argument(metavar="ID…", help="ids of deliveries of one endpoint")
    ],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only print the count")] = False,
) -> ExitCode:
    """Send deliveries again. The bytes and the webhook-id are the same."""
    from datarecs_cli.client import connect
    from datarecs_cli.endpoint_actions import post

    invocation = current()
    with connect(invocation) as api:
        params = {"dry_run": "true"} if dry_run else {}
        answer = post(api, "webhook-resends", params=params, body={"ids": ids})
    _print_action(answer, invocation)
    return ExitCode.DONE


@app.command("recover")
def recover(
    *,
    endpoint: Endpoint,
    since: Annotated[
        str, typer.Option(help="start: RFC 3339 time, or a duration before now such as PT2H")
    ],
    until: Annotated[str | None, typer.Option(help="end, as --since; default now")] = None,
    namespace: Project = DEFAULT_NAMESPACE,
    everything: Annotated[
        bool, typer.Option("--all", help="also events that the endpoint has received")
    ] = False,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="with --all: only these types, as patterns")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only print the count")] = False,
) -> ExitCode:
    """Send the events that an endpoint missed.

    The window is at most 14 days. With --all, all events of the window are sent.
    """
    from datarecs_cli.client import connect
    from datarecs_cli.endpoint_actions import post

    invocation = current()
    if types and not everything:
        raise UsageFault("--type is only for --all")
    body: Json = {"since": _instant("--since", since)}
    if until is not None:
        body = {**body, "until": _instant("--until", until)}
    if types:
        body = {**body, "types": types}
    params = {"namespace": namespace} | ({"dry_run": "true"} if dry_run else {})
    with connect(invocation) as api:
        verb = "replay" if everything else "recover"
        answer = post(api, PLACE, endpoint, verb, params=params, body=body)
    _print_action(answer, invocation)
    return ExitCode.DONE


@app.command("cancel")
def cancel(
    action: Annotated[str, typer.Argument(metavar="ACTION", help="id of a resend or recover")],
) -> ExitCode:
    """Stop a resend or recover. Deliveries that already exist are still sent."""
    from datarecs_cli.client import ApiRequest, connect, path_of

    invocation = current()
    with connect(invocation) as api:
        request = ApiRequest(method="DELETE", path=path_of("webhook-actions", action))
        _print_action(api.send(request).json(), invocation)
    return ExitCode.DONE


@app.command("enable")
def enable(*, endpoint: Endpoint, namespace: Project = DEFAULT_NAMESPACE) -> ExitCode:
    """Enable an endpoint and reset its failures. Print the number of events that it missed."""
    from datarecs_cli.client import connect
    from datarecs_cli.endpoint_actions import post
    from datarecs_cli.output import print_json

    invocation = current()
    with connect(invocation) as api:
        answer = post(api, PLACE, endpoint, "enable", params={"namespace": namespace}, body={})
    if invocation.is_json:
        print_json("webhook", answer)
        return ExitCode.DONE
    missed = answer.get("recoverable")
    print(f"{endpoint} is enabled; it missed {missed} events since {answer.get('missed_since')}")
    if missed:
        since = answer.get("missed_since")
        invocation.say(f"datarecs webhook recover --endpoint {endpoint} --since {since}")
    return ExitCode.DONE


@app.command("disable")
def disable(*, endpoint: Endpoint, namespace: Project = DEFAULT_NAMESPACE) -> ExitCode:
    """Disable an endpoint. You can recover its events for 14 days."""
    from datarecs_cli.client import connect
    from datarecs_cli.endpoint_actions import post
    from datarecs_cli.output import print_json

    invocation = current()
    with connect(invocation) as api:
        answer = post(api, PLACE, endpoint, "disable", params={"namespace": namespace}, body={})
    if invocation.is_json:
        print_json("webhook", answer)
    else:
        print(f"{endpoint} is disabled")
    return ExitCode.DONE


@app.command(
    "rotate-secret",
    epilog="Example: datarecs webhook rotate-secret --endpoint erp --secret-out new.secret",
)
def rotate_secret(
    *,
    endpoint: Endpoint,
    namespace: Project = DEFAULT_NAMESPACE,
    grace: Annotated[
        str, typer.Option(help="time in which the old secret also signs; PT0S: none")
    ] = "P1D",
    secret_out: Annotated[
        Path | None, typer.Option(help="file for the new secret, instead of stderr")
    ] = None,
) -> ExitCode:
    """Create a new signing secret. The old one also signs until the grace period ends."""
    from datarecs_cli.client import connect
    from datarecs_cli.endpoint_actions import post
    from datarecs_cli.output import print_json
    from datarecs_cli.secret_output import hand_over

    invocation = current()
    with connect(invocation) as api:
        where = {"namespace": namespace}
        body: Json = {"grace_period": grace}
        answer = post(api, PLACE, endpoint, "secret", "rotate", params=where, body=body)
    secret = answer.get("generated_secret")
    hand_over([secret] if isinstance(secret, str) else [], secret_out, invocation)
    shown = {name: value for name, value in answer.items() if name != "generated_secret"}
    if invocation.is_json:
        print_json("webhook", shown)
        return ExitCode.DONE
    previous = answer.get("previous")
    for one in previous if isinstance(previous, list) else []:
        invocation.say(f"key {one['key_id']} also signs until {one['expires_at']}")
    return ExitCode.DONE


def _full(event_type: str) -> str:
    from datarecs_events.event_types import PREFIX

    return event_type if event_type.startswith(PREFIX) else PREFIX + event_type


def _instant(option: str, text: str) -> str:
    from datarecs_cli.endpoint_actions import instant_of
    from datarecs_runtime.clock import SystemClock

    instant = instant_of(text, now=SystemClock().now())
    if instant is None:
        raise UsageFault(f"{option} {text}: write a time such as 2026-01-31T12:00:00Z, or PT2H")
    return instant


def _print_action(answer: "Json", invocation: Invocation) -> None:
    from datarecs_cli.output import print_json

    if invocation.is_json:
        print_json("webhook", answer)
    elif "count" in answer:
        print(f"deliveries to create: {answer['count']}")
    else:
        made = f"{answer['made']} of {answer['expected']} deliveries created"
        print(f"{answer['action_id']}  {answer['state']}  {made}")


def _last_attempt(delivery: "Json") -> "Json":
    attempts = delivery.get("attempts")
    return attempts[-1] if isinstance(attempts, list) and attempts else {}


def _print_test(delivery: "Json", invocation: Invocation) -> None:
    from datarecs_cli.output import cell, print_json

    if invocation.is_json:
        print_json("webhook", delivery)
        return
    last = _last_attempt(delivery)
    print(f"{delivery['state']}  {last.get('status') or last.get('outcome') or 'no answer yet'}")
    phases = last.get("phases")
    if isinstance(phases, dict) and phases:
        print("  ".join(f"{name} {value} ms" for name, value in phases.items()))
    for text in (last.get("error"), last.get("response_body")):
        if text:
            print(cell(text))
