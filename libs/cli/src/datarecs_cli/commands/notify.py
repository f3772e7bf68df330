"""`datarecs notify`: previews a rule's mails, mutes a rule, lists mails and sends them again."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Invocation, Output, UsageFault, current
from datarecs_cli.output import Column
from datarecs_core.resources.resource import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from datarecs_cli.client import Json

RULES = "notification-rules"
_MAILS = tuple(
    Column(title=title, member=member)
    for title, member in (
        ("MAIL", "delivery_id"),
        ("TO", "recipient"),
        ("KIND", "kind"),
        ("OUTCOME", "outcome"),
        ("STATE", "state"),
        ("REASON", "reason"),
        ("RELAY", "last_reply"),
    )
)
app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Preview, mute, list and resend mails about runs.",
)


class Part(StrEnum):
    TEXT = "text"
    HTML = "html"


@app.command("preview")
def preview(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="name of the NotificationRule")],
    *,
    run: Annotated[str, typer.Option(help="id of a finished run")],
    namespace: Annotated[str, typer.Option(help="namespace of the rule")] = DEFAULT_NAMESPACE,
    part: Annotated[Part, typer.Option("--format", help="part to print")] = Part.TEXT,
    send_to: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="send a test mail to this recipient")
    ] = None,
) -> ExitCode:
    """Show the recipients and the text of a rule's mail.

    It also shows who gets no mail about the run, and why.
    """
    from datarecs_cli.client import ApiRequest, connect, path_of
    from datarecs_cli.output import print_json

    invocation, where = current(), {"namespace": namespace}
    with connect(invocation) as api:
        path = path_of(RULES, rule, "preview")
        request = ApiRequest(method="POST", path=path, params=where, body={"run_id": run})
        made = api.send(request).json()
        if send_to is not None:
            body: dict[str, object] = {"run_id": run, "address": send_to}
            path = path_of(RULES, rule, "test")
            api.send(ApiRequest(method="POST", path=path, params=where, body=body))
    if invocation.is_json:
        print_json("notify", {"object": made})
        return ExitCode.DONE
    _report_recipients(made, invocation)
    if made["subject"] is not None:
        print(
            made["html"] if part is Part.HTML else f"Subject: {made['subject']}\n\n{made['text']}"
        )
    if send_to is not None:
        invocation.say(f"test mail queued for {send_to}")
    return ExitCode.DONE


def _report_recipients(made: "Json", invocation: Invocation) -> None:
    from datarecs_cli.mail_reasons import mail_reason

    for rule in _objects(made["held"]):
        invocation.say(f"no mail is sent: {mail_reason(rule['reason'])}")
    for recipient in _objects(made["recipients"]):
        skipped = recipient["skipped"]
        due = recipient["due_at"]
        ending = f"no mail: {mail_reason(skipped)}" if skipped else f"mail {due or 'at once'}"
        invocation.say(f"{recipient['address']}  {ending}")


def _objects(value: object) -> "list[Json]":
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


@app.command("mute")
def mute(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="name of the NotificationRule")],
    *,
    until: Annotated[
        str, typer.Option(metavar="TIME", help="end of the mute, such as 2026-02-01T08:00:00Z")
    ],
    reason: Annotated[str, typer.Option(help="reason, shown in the rule")] = "",
    job: Annotated[list[str] | None, typer.Option(help="only mails about these jobs")] = None,
    namespace: Annotated[str, typer.Option(help="namespace of the rule")] = DEFAULT_NAMESPACE,
) -> ExitCode:
    """Send no mails of a rule until a time. Ended mutes are removed from the rule."""
    from datarecs_cli.client import ApiRequest, connect, path_of
    from datarecs_runtime.clock import SystemClock

    end, now = _moment(until), SystemClock().now()
    invocation, where = current(), {"namespace": namespace}
    path = path_of(RULES, rule)
    with connect(invocation) as api:
        answer = api.send(ApiRequest(method="GET", path=path, params=where))
        stored = answer.json()
        entry: dict[str, object] = {"until": end.isoformat(), "reason": reason, "jobs": job or []}
        headers = {"If-Match": answer.headers["etag"]}
        body = _muted(stored, entry, now=now)
        api.send(ApiRequest(method="PUT", path=path, params=where, headers=headers, body=body))
    invocation.say(f"rule {rule} is muted until {end.isoformat()}")
    return ExitCode.DONE


def _muted(stored: "Json", mute: "Json", *, now: datetime) -> "Json":
    """The rule with one more mute and without ended mutes."""
    spec = stored["spec"]
    metadata = stored["metadata"]
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        raise TypeError("a rule has a spec and metadata")
    mutes = [one for one in _objects(spec.get("mutes")) if _moment(str(one["until"])) > now]
    written = ("name", "namespace", "labels", "annotations", "finalizers")
    return {
        "apiVersion": stored["apiVersion"],
        "kind": stored["kind"],
        "metadata": {name: metadata[name] for name in written if name in metadata},
        "spec": {**spec, "mutes": [*mutes, mute]},
    }


@app.command("log")
def log(
    *,
    run: Annotated[str | None, typer.Option(help="only mails about this run")] = None,
    state: Annotated[
        str | None, typer.Option(help="only mails in this state, such as SKIPPED")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="most mails to list, newest first")] = 20,
) -> ExitCode:
    """List mails. Skipped mails are listed with the reason."""
    from datarecs_cli.client import connect
    from datarecs_cli.output import print_list

    invocation = current()
    where = {} if run is None else {"run_id": run}
    if state is not None:
        where["state"] = state.upper()
    with connect(invocation) as api:
        items = list(api.pages("emails", limit=limit, params=where))
    data = invocation.output in (Output.JSON, Output.JSONL, Output.YAML)
    rows = items if data else [{**one, "name": one.get("delivery_id")} for one in items]
    print_list("notify", _MAILS, rows, invocation)
    if not items:
        invocation.say("no mails")
    return ExitCode.DONE


@app.command("resend")
def resend(
    mail: Annotated[
        str, typer.Argument(metavar="MAIL", help="id of a mail that was not delivered")
    ],
) -> ExitCode:
    """Queue a mail again that was not delivered. It has the same Message-ID."""
    from datarecs_cli.client import ApiRequest, connect, path_of

    invocation = current()
    with connect(invocation) as api:
        made = api.send(ApiRequest(method="POST", path=path_of("emails", mail, "resend"))).json()
    invocation.say(f"mail {made['delivery_id']} is queued for {made['recipient']}")
    return ExitCode.DONE


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UsageFault(f"--until {text}: write a time with offset, such as 2027-01-04T08:00:00Z")
    return moment.astimezone(UTC)
