"""`datarecs webhook`: a receiver on this machine, and the list of an endpoint's deliveries."""

import json
import sys
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Invocation, Output, UsageFault, current
from datarecs_cli.output import Column
from datarecs_core.resources.resource import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from datarecs_cli.client import Json
    from datarecs_cli.receiver import Received

DELIVERIES_A_PAGE = 50
_DELIVERIES = tuple(
    Column(title=title, member=member)
    for title, member in (
        ("DELIVERY", "delivery_id"),
        ("EVENT", "event_type"),
        ("STATE", "state"),
        ("ATTEMPTS", "tries"),
        ("LAST", "last"),
        ("NEXT", "next"),
    )
)
app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Webhooks.")


@app.command("listen")
def listen(
    *,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="port; 0 takes a free one")] = 9000,
    secret_stdin: Annotated[
        bool, typer.Option("--secret-stdin", help="read whsec_… secrets from stdin, one per line")
    ] = False,
    status: Annotated[
        int, typer.Option(min=200, max=599, help="answer to verified deliveries")
    ] = 200,
    fail_first: Annotated[
        int, typer.Option(min=0, metavar="N", help="answer the first N deliveries with 503")
    ] = 0,
) -> ExitCode:
    """Receive and verify deliveries on 127.0.0.1.

    Each delivery is one line with the result of the check of its signature.
    """
    from datarecs_cli.receiver import Receiver
    from datarecs_cli.stack.failures import PortBusyError
    from datarecs_runtime.clock import SystemClock

    invocation = current()
    keys = _keys(sys.stdin.read()) if secret_stdin else []
    receiver = Receiver(
        keys=keys,
        clock=SystemClock(),
        on_received=lambda received: _print_received(received, invocation),
        status=status,
        fail_first=fail_first,
        port=port,
    )
    try:
        receiver.open()
    except OSError as cause:
        raise PortBusyError(port=port, part="webhook listen", owner=None) from cause
    try:
        invocation.say(f"listening on {receiver.url}  stop with Ctrl-C")
        if not keys:
            invocation.say("signatures are not verified; to verify them, use --secret-stdin")
        Event().wait(invocation.timeout_s)
    finally:
        receiver.close()
    return ExitCode.DONE


@app.command("deliveries")
def deliveries(
    *,
    endpoint: Annotated[str, typer.Option(metavar="NAME", help="name of the WebhookEndpoint")],
    namespace: Annotated[str, typer.Option(help="namespace of the endpoint")] = DEFAULT_NAMESPACE,
    state: Annotated[
        str | None, typer.Option(help="only deliveries in this state, such as DEAD_LETTERED")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="most deliveries to list, newest first")] = 20,
) -> ExitCode:
    """List the newest deliveries of an endpoint.

    The list shows the attempts of each delivery and its next step.
    """
    from datarecs_cli.client import connect
    from datarecs_cli.output import print_list

    invocation = current()
    with connect(invocation) as api:
        where = {"namespace": namespace} | ({} if state is None else {"state": state.upper()})
        path = ("webhook-endpoints", endpoint, "deliveries")
        items = list(api.pages(*path, limit=limit, params=where, page_size=DELIVERIES_A_PAGE))
    data = invocation.output in (Output.JSON, Output.JSONL, Output.YAML)
    rows = items if data else [_delivery_row(one) for one in items]
    print_list("webhook", _DELIVERIES, rows, invocation)
    if not items:
        invocation.say("no deliveries")
    return ExitCode.DONE


def _delivery_row(delivery: "Json") -> "Json":
    attempts = delivery.get("attempts")
    made = attempts if isinstance(attempts, list) else []
    last = made[-1] if made else {}
    waits = delivery.get("state") == "PENDING"
    return {
        **delivery,
        "name": delivery.get("delivery_id"),
        "tries": len(made),
        "last": last.get("status") or last.get("outcome"),
        "next": delivery.get("due_at") if waits else None,
    }


def _keys(text: str) -> list[bytes]:
    from datarecs_core.webhooks.signature import secret_key

    try:
        keys = [secret_key(line.strip()) for line in text.splitlines() if line.strip()]
    except ValueError as fault:
        raise UsageFault(f"--secret-stdin: {fault}") from None
    if not keys:
        raise UsageFault("--secret-stdin: stdin has no secret")
    return keys


def _print_received(received: "Received", invocation: Invocation) -> None:
    if invocation.output in (Output.JSON, Output.JSONL):
        print(json.dumps(_as_data(received)), flush=True)
    else:
        print(_line(received), flush=True)


def _as_data(received: "Received") -> dict[str, object]:
    return {
        "schema": "datarecs.cli.webhook/1",
        "verified": received.verified,
        "fault": received.fault,
        "attempt": received.attempt,
        "again": received.again,
        "answered": received.answered,
        "event": dict(received.event),
    }


def _line(received: "Received") -> str:
    from datarecs_cli.output import cell, stdout_words
    from datarecs_runtime.environment import process_environment

    words = stdout_words(process_environment())
    dot = f" {words.dot} "
    if received.fault is not None:
        state = f"{words.errored} refused: {received.fault}"
    else:
        judged = "signature verified" if received.verified else "not verified"
        state = f"{words.tick} {cell(received.event_type)}{dot}{judged}"
    parts = [state]
    if received.attempt:
        parts.append(f"attempt {cell(received.attempt)}")
    if received.again:
        parts.append("repeated id")
    return dot.join([*parts, f"answered {received.answered}"])
