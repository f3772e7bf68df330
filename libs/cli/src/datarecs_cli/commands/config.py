"""`datarecs config`: every setting with its meaning and value, and the files that set them."""

import json
from pathlib import Path
from typing import Annotated

import typer

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Output, current
from datarecs_cli.output import Column, print_list

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Settings.")
SCHEMA = "datarecs.cli.config/1"
_COLUMNS = (
    Column(title="NAME", member="name"),
    Column(title="VALUE", member="value"),
    Column(title="SOURCE", member="source"),
)


@app.command("show")
def show(
    *,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="print all settings as a commented datarecs.toml")
    ] = False,
) -> ExitCode:
    """Print the settings that are set, and where each is set. Secrets are never printed."""
    from datarecs_cli.effective_settings import commented, effective
    from datarecs_runtime.environment import process_environment
    from datarecs_runtime.settings import describe

    if defaults:
        print("\n".join(commented(describe())))
        return ExitCode.DONE
    settings = effective(describe(), process_environment(), folder=Path.cwd())
    invocation = current()
    if invocation.output not in (None, Output.TABLE, Output.TEXT):
        items = [{"name": one.name, "value": one.value, "source": one.source} for one in settings]
        print_list("config", _COLUMNS, items, invocation)
        return ExitCode.DONE
    for one in settings:
        print(f"{one.name}={one.value}  # {one.source}")
    if not settings:
        current().say("no setting is set; list all with: datarecs config show --defaults")
    return ExitCode.DONE


@app.command("path")
def path() -> ExitCode:
    """Print the files that are read; earlier files override later ones."""
    from datarecs_cli.config import credential_files
    from datarecs_runtime.settings import PROJECT_FILE, USER_FILE

    home = Path("~").expanduser()
    files = (
        Path.cwd() / PROJECT_FILE,
        USER_FILE.expanduser(),
        *credential_files(Path.cwd(), home),
    )
    if current().is_json:
        items = [{"path": str(one), "exists": one.is_file()} for one in files]
        print(json.dumps({"schema": SCHEMA, "items": items}))
        return ExitCode.DONE
    for one in files:
        print(f"{one}" if one.is_file() else f"{one}  (not there)")
    return ExitCode.DONE
