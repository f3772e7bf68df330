"""`datarecs up`, `down`, `status`: start, stop and inspect the local platform."""

import ipaddress
import json
import shlex
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from datarecs_cli.commands.version import release
from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Output, UsageFault, current
from datarecs_cli.output import Column, print_list
from datarecs_cli.stack.background import start_in_background
from datarecs_cli.stack.failures import PublicBindError, shortened
from datarecs_cli.stack.layout import DATA_FOLDER, Layout, layout_of
from datarecs_cli.stack.observe import PlatformView, view
from datarecs_cli.stack.options import SERVERS, Options, Report
from datarecs_cli.stack.runner import Platform, prepare_folders
from datarecs_cli.stack.services import SERVICES
from datarecs_cli.stack.shutdown import check_used, stop_platform, wipe
from datarecs_cli.stack.state import Phase
from datarecs_cli.stack.stop_signals import StopSignals
from datarecs_core.errors.base import DatarecsError
from datarecs_runtime.environment import process_environment

LOG_FORMATS = {"json": "json", "text": "console"}
"""The setting of each flag."""
STATUS_SCHEMA = "datarecs.cli.status/1"
_PART_COLUMNS = (
    Column(title="NAME", member="name"),
    Column(title="PID", member="pid", number=True),
    Column(title="ADDRESS", member="address"),
    Column(title="STATE", member="state"),
)
DataDir = Annotated[Path, typer.Option(help="folder for all data of this platform")]
ReadyTimeout = Annotated[
    float | None,
    typer.Option(min=1, metavar="SECONDS", help="limit for a start without progress; default 120"),
]
DEFAULT_DATA_DIR = Path(DATA_FOLDER)


def up(
    *,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="API port; default 8080 or the next free one"),
    ] = None,
    bind: Annotated[str, typer.Option(help="address of the API; loopback only")] = "127.0.0.1",
    database_url: Annotated[
        str | None,
        typer.Option(help="administrator URL of a running PostgreSQL; then none is started"),
    ] = None,
    jars_from: Annotated[
        Path | None, typer.Option(help="folder with the Kafka jars, if there is no network")
    ] = None,
    log_format: Annotated[str, typer.Option(help="text or json")] = "json",
    only: Annotated[
        list[str] | None, typer.Option(help="parts to start, such as postgres,kafka; default all")
    ] = None,
    ready_timeout: ReadyTimeout = None,
    detach: Annotated[bool, typer.Option("--detach", help="start in the background")] = False,
) -> ExitCode:
    """Start PostgreSQL, Kafka and the services on this machine, without Docker."""
    _refuse_public(bind)
    if log_format not in LOG_FORMATS:
        raise UsageFault(
            f"--log-format {log_format}: unknown format; known: {', '.join(LOG_FORMATS)}"
        )
    environment = _environment()
    if database_url is not None:
        environment["DATARECS_DATABASE__URL"] = database_url
    options = Options(
        layout=layout_of(data_dir),
        environment=environment,
        release=release(),
        project=Path.cwd(),
        port=port,
        jars_from=jars_from,
        log_format=LOG_FORMATS[log_format],
        only=_parts(only),
        ready_timeout_s=ready_timeout,
    )
    _refuse_without_database(options)
    if detach:
        return _detached(options)
    platform = Platform(options, Report(done=_done, note=_note))
    if not platform.take():
        _note(f"a platform already runs on {options.layout.root}")
        return _print_status(view(options.layout))
    return _supervise(platform)


def down(
    *,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    reset: Annotated[bool, typer.Option("--reset", help="also delete the platform's data")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not prompt before deleting")] = False,
) -> ExitCode:
    """Stop the platform; its data stays, except with --reset."""
    layout = layout_of(data_dir)
    if not layout.root.is_dir():
        current().say(f"no platform at {layout.root}")
        return ExitCode.DONE
    if reset:
        check_used(layout)
        if not yes:
            _confirm(layout)
    stopped = stop_platform(layout, current().say)
    current().say("stopped" if stopped else "no platform was running")
    if reset:
        current().say(_deleted(layout, wipe(layout)))
    return ExitCode.DONE


def _deleted(layout: Layout, others: list[str]) -> str:
    if not others:
        return f"{layout.root} is deleted"
    return f"the platform's data in {layout.root} is deleted; other files stay: {shortened(others)}"


def status(*, data_dir: DataDir = DEFAULT_DATA_DIR) -> ExitCode:
    """Show the parts of the platform, their addresses, and whether they answer."""
    return _print_status(view(layout_of(data_dir)))


def _environment() -> dict[str, str]:
    from datarecs_cli.stack.settings import effective_environment

    return effective_environment(process_environment())


def _refuse_public(bind: str) -> None:
    try:
        loopback = ipaddress.ip_address(bind).is_loopback
    except ValueError:
        loopback = bind == "localhost"
    if not loopback:
        raise PublicBindError(address=bind)


def _refuse_without_database(options: Options) -> None:
    has_database = options.wants("postgres") or "DATARECS_DATABASE__URL" in options.environment
    if options.wanted_services and not has_database:
        raise UsageFault("services need a database: add postgres to --only, or --database-url")


def _parts(only: list[str] | None) -> frozenset[str] | None:
    if not only:
        return None
    known = {*SERVERS, *(service.name for service in SERVICES)}
    words = {word for text in only for word in text.split(",") if word}
    unknown = words - known
    if unknown:
        raise UsageFault(
            f"--only {', '.join(sorted(unknown))}: unknown part; known: {', '.join(sorted(known))}"
        )
    return frozenset(words)


def _supervise(platform: Platform) -> ExitCode:
    """Start, print the banner, run until stopped. SIGTERM is `datarecs down`: exit code 0."""
    signals = StopSignals(platform.supervisor)
    with suppress(KeyboardInterrupt):
        platform.bring_up()
        try:
            _correct_demo(platform)
            print(_banner(platform), flush=True)
            platform.watch()
        finally:  # also if the stop arrives before the watch begins
            platform.bring_down()
    current().say("stopped")
    return ExitCode.INTERRUPTED if signals.first is signal.SIGINT else ExitCode.DONE


def _correct_demo(platform: Platform) -> None:
    """Correct the port of an earlier demo's connection after the database's port changed."""
    from datarecs_cli.client import Api
    from datarecs_cli.config import Access
    from datarecs_cli.demo.moved_port import correct_port
    from datarecs_cli.stack.credentials import read_credentials

    credentials = read_credentials(platform.layout.credentials_file)
    if credentials is None or not {"postgres", "core-api"} <= set(platform.options.expected):
        return
    port = platform.ports["postgres"]
    try:
        with Api(Access(server=platform.base_url, api_key=credentials.api_key)) as api:
            if correct_port(api, port):
                _note(f"the demo's connection now has port {port}")
    except DatarecsError as failure:
        _note(f"the demo's connection may have another port than {port}: {failure}")


def _banner(platform: Platform) -> str:
    layout = platform.layout
    lines = []
    if any(one.name == "core-api" for one in platform.options.wanted_services):
        lines.append(f"API        {platform.base_url}/api/v1")
    if layout.credentials_file.exists():
        lines.append(f"key        {layout.credentials_file}")
    lines += [
        f"data       {layout.root}",
        f"logs       {layout.logs}",
        *how_to_use(layout),
        "stop with Ctrl-C or `datarecs down`",
    ]
    return "\n".join(lines)


def how_to_use(layout: Layout) -> list[str]:
    """How commands in this folder reach the platform, unless they find its credentials here."""
    from datarecs_cli.config import API_KEY, credential_files
    from datarecs_cli.stack.credentials import read_credentials

    here, _ = credential_files(Path.cwd(), Path.home())
    credentials = read_credentials(layout.credentials_file)
    if credentials is None or here.resolve() == layout.credentials_file.resolve():
        return []
    file = shlex.quote(str(layout.credentials_file))
    key = f"sed -n 's/^api_key = \"\\(.*\\)\"$/\\1/p' {file}"
    return [
        f'use        export {API_KEY}="$({key})"',
        f"           datarecs get jobs --server {credentials.server}",
    ]


def _detached(options: Options) -> ExitCode:
    layout = options.layout
    prepare_folders(layout)
    arguments = _arguments_of(options)
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        current().say(line)

    code = start_in_background(arguments, layout, environment=options.environment, say=say)
    if code == ExitCode.DONE:
        for line in how_to_use(layout):
            if line not in said:  # the start may be followed to its last line or not
                current().say(line)
    return ExitCode(code)


def _arguments_of(options: Options) -> list[str]:
    """The same command for the process in the background."""
    flag = {setting: flag for flag, setting in LOG_FORMATS.items()}[options.log_format]
    arguments = ["up", "--data-dir", str(options.layout.root), "--log-format", flag]
    if options.port is not None:
        arguments += ["--port", str(options.port)]
    if options.jars_from is not None:
        arguments += ["--jars-from", str(options.jars_from.absolute())]
    if options.ready_timeout_s is not None:
        arguments += ["--ready-timeout", f"{options.ready_timeout_s:g}"]
    if options.only is not None:
        arguments += ["--only", ",".join(sorted(options.only))]
    return arguments


def _confirm(layout: Layout) -> None:
    """Before deleting, the user must type the folder's name."""
    if current().no_input or not sys.stdin.isatty():
        raise UsageFault("down --reset deletes all data; without a terminal, add --yes")
    typed = typer.prompt(
        f"type {layout.root.name} to delete the platform's data in {layout.root}", err=True
    )
    if typed != layout.root.name:
        raise UsageFault("not deleted: the name differs")


def _done(text: str, seconds: float) -> None:
    current().say(f"  {_tick()} {text:64} {seconds:5.1f} s")


def _note(text: str) -> None:
    current().say(f"  ! {text}")


def _tick() -> str:
    return "✓" if (sys.stderr.encoding or "").lower().startswith("utf") else "OK"


def _print_status(seen: PlatformView) -> ExitCode:
    if current().output in (Output.JSON, Output.JSONL):
        print(json.dumps(_as_data(seen)))
    elif current().output not in (None, Output.TABLE, Output.TEXT):
        rows = [
            {
                "name": part.name,
                "pid": part.pid,
                "address": part.address,
                "state": "ready" if part.silence is None else part.silence,
            }
            for part in seen.parts
        ]
        print_list("status", _PART_COLUMNS, rows, current())
    else:
        print(_as_table(seen))
    return ExitCode.DONE if seen.is_ready else ExitCode.ERRORED


def _as_data(seen: PlatformView) -> dict[str, object]:
    return {
        "schema": STATUS_SCHEMA,
        "phase": seen.phase,
        "ready": seen.is_ready,
        "release": seen.release,
        "ports": dict(seen.ports),
        "parts": [
            {
                "name": part.name,
                "pid": part.pid,
                "address": part.address,
                "ready": part.silence is None,
                "reason": part.silence,
                "restarted": part.restarted,
            }
            for part in seen.parts
        ],
    }


def _as_table(seen: PlatformView) -> str:
    if seen.phase is Phase.STOPPED:
        return "no platform runs here; start it with: datarecs up"
    rows = [
        f"{part.name:24}{part.address:20}{part.pid or '-':>8}  {part.silence or 'ready'}"
        + (f" ({part.restarted})" if part.restarted else "")
        for part in seen.parts
    ]
    return "\n".join([f"{'PART':24}{'ADDRESS':20}{'PID':>8}  {seen.phase}", *rows])
