"""`datarecs key`: creates, lists and revokes API keys; a new key is printed once, on stdout."""

import re
from typing import Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import UsageFault, current

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, help="Create, list and revoke API keys."
)
_DAYS = re.compile(r"([1-9][0-9]{0,2})d?")
MOST_DAYS = 366


@app.command("create")
def create(
    *,
    name: Annotated[str, typer.Option(help="name of the key, such as ci")],
    scope: Annotated[
        list[str] | None, typer.Option(help="a permission such as run.trigger; default all yours")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(help="lifetime such as 30d; default 90d, at most that of your key"),
    ] = None,
) -> ExitCode:
    """Create a key with at most your permissions. It is printed once, alone on stdout."""
    from datarecs_cli.client import ApiRequest, connect, path_of
    from datarecs_cli.output import print_json

    body: dict[str, object] = {"name": name}
    if expires is not None:
        body["expires_days"] = _days(expires)
    if scope:
        body["scopes"] = scope
    invocation = current()
    with connect(invocation) as api:
        made = api.send(ApiRequest(method="POST", path=path_of("keys"), body=body)).json()
    if invocation.is_json:
        print_json("key", {"object": made})
    else:
        print(made["key"])
    invocation.say(f"key {made['key_id']} expires {made['expires_at']}; it is shown only once")
    return ExitCode.DONE


def _days(text: str) -> int:
    match = _DAYS.fullmatch(text)
    if match is None or int(match[1]) > MOST_DAYS:
        raise UsageFault(f"--expires {text}: write 1d to {MOST_DAYS}d")
    return int(match[1])


@app.command("list")
def list_keys(
    *,
    everybody: Annotated[
        bool, typer.Option("--all", help="list the keys of all principals")
    ] = False,
) -> ExitCode:
    """List your key and the keys created with it, without their secrets."""
    from datarecs_cli.client import connect
    from datarecs_cli.output import Column, print_list

    invocation = current()
    with connect(invocation) as api:
        answer = api.get("keys", **({"all": "true"} if everybody else {}))
    items = answer.get("items")
    columns = [
        Column(title=member.upper().replace("_", " "), member=member)
        for member in ("key_id", "name", "owner", "parent_key_id", "expires_at", "revoked_at")
    ]
    print_list("key", columns, items if isinstance(items, list) else [], invocation)
    return ExitCode.DONE


@app.command("revoke")
def revoke(
    key_id: Annotated[
        str, typer.Argument(metavar="KEY", help="id of the key, as shown by `key list`")
    ],
) -> ExitCode:
    """Revoke a key and every key created with it. All servers refuse it within ten seconds."""
    from datarecs_cli.client import ApiRequest, connect, path_of
    from datarecs_cli.output import print_json

    invocation = current()
    with connect(invocation) as api:
        api.send(ApiRequest(method="DELETE", path=path_of("keys", key_id)))
    if invocation.is_json:
        print_json("key", {"key_id": key_id, "revoked": True})
    else:
        print(f"{key_id} revoked")
    return ExitCode.DONE
