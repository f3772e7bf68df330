"""`datarecs demo`: starts the whole platform and runs one small job twice."""

import platform as machine
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from datarecs_cli.commands.up import DEFAULT_DATA_DIR, DataDir, ReadyTimeout
from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.invocation import Invocation, Output, UsageFault, current

if TYPE_CHECKING:
    from datarecs_cli.demo.play import Played
    from datarecs_cli.stack.layout import Layout
    from datarecs_cli.stack.runner import Platform

STAY_UP = "DEMO_KEEP"
FOLDER = "demo"
"""Below the current folder, which is the platform's project."""


class Template(StrEnum):
    LEDGER = "ledger"
    ICEBERG_KAFKA = "iceberg-kafka"


def demo(
    *,
    template: Annotated[
        Template,
        typer.Option(
            help="ledger: compare two books that differ; iceberg-kafka: land a topic in a table, "
            "kill its tasks, and prove the table"
        ),
    ] = Template.LEDGER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="API port; default 8080 or the next free one"),
    ] = None,
    ready_timeout: ReadyTimeout = None,
    stay_up: Annotated[
        bool | None,
        typer.Option("--keep/--no-keep", help="keep the platform running; default on a terminal"),
    ] = None,
) -> ExitCode:
    """Start the platform, and run two comparisons of small data that you can change."""
    from datarecs_cli.commands.version import release
    from datarecs_cli.stack.layout import layout_of
    from datarecs_cli.stack.options import Options, Report
    from datarecs_cli.stack.runner import Platform
    from datarecs_cli.stack.settings import effective_environment
    from datarecs_runtime.environment import process_environment

    invocation, layout = current(), layout_of(data_dir)
    environment = effective_environment(process_environment())
    stays = _stays(stay_up, environment.get(STAY_UP))
    invocation.say(f"  python {machine.python_version()}, datarecs {release()}")
    options = Options(
        layout=layout,
        environment=environment,
        release=release(),
        project=Path.cwd(),
        port=port,
        ready_timeout_s=ready_timeout,
    )
    platform = Platform(options, Report(done=_done, note=_note))
    if not platform.take():
        invocation.say(f"  a platform runs on {layout.root} already")
        stage = _Stage(layout=layout, template=template, stays=True, receives_on=False)
        return _finish(_played(stage, invocation), invocation)
    stage = _Stage(layout=layout, template=template, stays=stays, receives_on=stays)
    performance = _Performance(platform, lambda: _played(stage, invocation), invocation)
    return _with_platform(platform, performance, stays=stays)


def _stays(flag: bool | None, setting: str | None) -> bool:  # noqa: FBT001  what the user wished, or None
    if setting not in (None, "", "0", "1"):
        raise UsageFault(f"{STAY_UP}={setting}: 1 or 0")
    if flag is not None:
        return flag
    return setting == "1" if setting else sys.stdout.isatty()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """Which demo is played, and where."""

    layout: "Layout"
    template: Template
    stays: bool
    receives_on: bool


class _Performance:
    """Runs the steps on a second thread; the main thread starts and stops the platform's parts."""

    def __init__(
        self, platform: "Platform", act: Callable[[], "Played"], invocation: Invocation
    ) -> None:
        self._platform, self._act, self._invocation = platform, act, invocation
        self.played: Played | None = None
        self.failure: Exception | None = None

    def begin(self, *, stays: bool) -> None:
        Thread(target=self._perform, args=(stays,), name="demo", daemon=True).start()

    def _perform(self, stays: bool) -> None:  # noqa: FBT001  an argument of the thread
        try:
            self.played = self._act()
        except Exception as failure:  # noqa: BLE001  handed to the thread that ends the command
            self.failure = failure
        if self.played is None or not stays:
            self._platform.supervisor.request_stop()
            return
        _finish(self.played, self._invocation)
        self._invocation.say("  the platform stays up; stop with Ctrl-C or `datarecs down`")


def _with_platform(platform: "Platform", performance: _Performance, *, stays: bool) -> ExitCode:
    from datarecs_cli.stack.stop_signals import StopSignals

    StopSignals(platform.supervisor)
    platform.bring_up()
    performance.begin(stays=stays)
    try:
        platform.watch()
    except KeyboardInterrupt:
        if performance.played is None:
            raise
    if performance.failure is not None:
        raise performance.failure
    if performance.played is None:
        return ExitCode.INTERRUPTED
    return ExitCode.DONE if stays else _finish(performance.played, current())


def _finish(played: "Played", invocation: Invocation) -> ExitCode:
    if invocation.output in (Output.JSON, Output.JSONL):
        from datarecs_cli.output import print_json

        runs = [ending.run for ending in played.endings]
        mail = {} if played.mail is None else {"mail": str(played.mail)}
        reports = [str(path) for path in played.reports]
        print_json("demo", {"runs": runs, "reports": reports, **mail})
    return ExitCode.DONE


def _played(stage: _Stage, invocation: Invocation) -> "Played":
    from datarecs_cli.client import Api
    from datarecs_cli.config import Access
    from datarecs_cli.demo.books import admin_login
    from datarecs_cli.demo.play import Scene, play
    from datarecs_cli.demo.sink_play import play_sink
    from datarecs_cli.output import stdout_words
    from datarecs_cli.stack.credentials import read_credentials
    from datarecs_cli.stack.failures import DemoFailedError
    from datarecs_runtime.environment import process_environment

    layout = stage.layout
    credentials = read_credentials(layout.credentials_file)
    if credentials is None:
        raise DemoFailedError(step="signing in", reason=f"no key in {layout.credentials_file}")
    environment = process_environment()
    with Api(Access(server=credentials.server, api_key=credentials.api_key)) as api:
        scene = Scene(
            layout=layout,
            tenant_id=credentials.tenant_id,
            folder=Path.cwd() / FOLDER,
            login=admin_login(layout, environment),
            api=api,
            words=stdout_words(environment),
            invocation=invocation,
            show=_show if invocation.output is None else _show_nothing,
            stays=stage.stays,
            receives_on=stage.receives_on,
        )
        return play(scene) if stage.template is Template.LEDGER else play_sink(scene)


def _show(line: str) -> None:
    print(line, flush=True)


def _show_nothing(_line: str) -> None:
    """Print to stderr, because stdout is for data."""


def _done(text: str, seconds: float) -> None:
    current().say(f"  {_tick()} {text:64} {seconds:5.1f} s")


def _note(text: str) -> None:
    current().say(f"  ! {text}")


def _tick() -> str:
    from datarecs_cli.output import stdout_words
    from datarecs_runtime.environment import process_environment

    return stdout_words(process_environment()).tick
