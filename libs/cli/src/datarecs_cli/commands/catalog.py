"""`datarecs catalog`: what the catalogue has stored, as it is stored, and whether it is intact."""

from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Output, UsageFault, current
from datarecs_cli.output import Column, as_yaml, print_json, print_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from datarecs_cli.client import Api, Json

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, help="Read and verify the catalogue of sources."
)
_POINTERS = (
    Column(title="KEY", member="key"),
    Column(title="VERSION", member="pointer_version", number=True),
    Column(title="RECORD", member="blob_key"),
)
_FAULTS = (
    Column(title="POINTER", member="pointer"),
    Column(title="RECORD", member="blob_key"),
    Column(title="CODE", member="code"),
    Column(title="FAULT", member="message"),
)


@app.command("ls")
def ls(
    prefix: Annotated[
        str, typer.Argument(metavar="[PREFIX]", help="such as tables/ or catalogs/by-name/")
    ] = "",
    *,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="number of keys")] = 1000,
) -> ExitCode:
    """List the keys of the catalogue below a prefix."""
    from datarecs_cli.client import connect

    invocation = current()
    with connect(invocation) as api:
        where = {"prefix": prefix}
        items = list(api.pages("catalog", "pointers", limit=limit + 1, params=where))
    if len(items) > limit:
        invocation.say(f"only the first {limit} keys; --limit {limit * 10} lists more")
    shown = items[:limit]
    if invocation.output is Output.NAME:
        shown = [{**one, "name": one["key"]} for one in shown]
    print_list("catalog.ls", _POINTERS, shown, invocation)
    if not items:
        invocation.say("no keys; the catalogue is empty, or the prefix is another one")
    return ExitCode.DONE


@app.command("cat")
def cat(
    key: Annotated[str, typer.Argument(metavar="KEY", help="a key or a record of `catalog ls`")],
) -> ExitCode:
    """Print what a key names, with the decoded record."""
    from datarecs_cli.client import connect

    invocation = current()
    with connect(invocation) as api:
        entry = api.get("catalog", "record", key=key)
    if invocation.output in (Output.JSON, Output.JSONL):
        print_json("catalog.cat", entry)
    elif invocation.output in (None, Output.YAML, Output.TEXT, Output.TABLE):
        print(as_yaml(entry))
    else:
        raise UsageFault(f"-o {invocation.output} is not a format of this command")
    return ExitCode.DONE


@app.command("verify")
def verify(
    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="name such as lake.sales.orders, or id")
    ] = None,
) -> ExitCode:
    """Read every record of the catalogue, or of a table, and list what is damaged or missing."""
    from datarecs_cli.client import connect

    invocation = current()
    checked, faults = 0, []
    with connect(invocation) as api:
        where = {} if table is None else {"table_id": table_id(api, table)}
        for page in _pages(api, where):
            checked += int(str(page["checked"]))
            items = page["items"]
            faults += items if isinstance(items, list) else []
    if invocation.is_json:
        print_json("catalog.verify", {"checked": checked, "items": faults})
    elif faults or invocation.output is not None:
        print_list("catalog.verify", _FAULTS, faults, invocation)
    if faults:
        invocation.say(f"{checked} keys, {len(faults)} of them damaged; datarecs errors CODE helps")
        return ExitCode.ERRORED
    invocation.say(f"{checked} keys, all of them intact")
    return ExitCode.DONE


def table_id(api: "Api", table: str) -> str:
    """The id of a table by its id or its name.

    Raises:
        UsageFault: the name means something else.
    """
    from uuid import UUID

    try:
        return str(UUID(table))
    except ValueError:
        resolved = api.get("catalog", "resolve", name=table)
    if resolved["kind"] != "table":
        raise UsageFault(f"{table} is a {resolved['kind']}, not a table")
    return str(resolved["id"])


def _pages(api: "Api", where: dict[str, str]) -> "Iterator[Json]":
    """Every page; also one without faults may not be the last."""
    from datarecs_cli.client import MAX_PAGE

    query = {**where, "limit": str(MAX_PAGE)}
    while True:
        page = api.get("catalog", "faults", **query)
        yield page
        if page.get("next") is None:
            return
        query["cursor"] = str(page["next"])
