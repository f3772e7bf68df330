import json
import os
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

import pytest

from datarecs_cli.exit_codes import ExitCode, exit_code_of
from datarecs_cli.invocation import Invocation, Output, UsageFault, take_globals
from datarecs_cli.main import COMMANDS, Command, ending, load, run
from datarecs_cli.stack.failures import MachineTooSmallError, PortBusyError, PublicBindError
from datarecs_core.errors.platform import PlatformCode

FORBIDDEN = ("fastapi", "sqlalchemy", "pyspark", "httpx", "pyarrow", "pydantic_settings")
BUSY = PortBusyError(port=8080, part="api", owner="python (pid 7)")


def parsed(*arguments: str, **environment: str) -> tuple[Invocation, list[str]]:
    return take_globals(arguments, environment=environment, stdout_is_terminal=True)


@pytest.mark.case("ARC-13")
@pytest.mark.case("U06")
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["up", "--help"]])
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom datarecs_cli.main import run\n"
        f"run({arguments!r})\n"
        f"print([one for one in {FORBIDDEN!r} if one in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("module", ["datarecs_cli.main", "datarecs_cli.invocation", "typer"])
def test_an_interrupt_during_an_import_ends_the_command_without_a_trace(module: str) -> None:
    code = (
        "import signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}: signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "sys.argv = ['datarecs', 'status', '--help']\n"
        "from datarecs_cli.start import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.INTERRUPTED, "", "")


@pytest.mark.case("ARC-13")
@pytest.mark.case("U06")
def test_help_is_there_within_a_quarter_of_a_second() -> None:
    """In processor time, which other work on the machine changes little."""
    taken = []
    for _ in range(10):
        began = processor_time_of_children()
        subprocess.run(
            [sys.executable, "-m", "datarecs_cli", "--help"], capture_output=True, check=True
        )
        taken.append(processor_time_of_children() - began)
    assert median(taken) <= 0.25


def processor_time_of_children() -> float:
    """Seconds of all children that have ended."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_of_the_table_exists_and_explains_itself(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    load(command)
    assert run([command.name, "--help"]) == ExitCode.DONE
    assert f"datarecs {command.name}" in capsys.readouterr().out


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == ExitCode.DONE
    shown = capsys.readouterr().out
    assert all(command.name in shown for command in COMMANDS)


def test_no_command_at_all_is_wrong_usage() -> None:
    assert run([]) == ExitCode.USAGE


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["staus"], "did you mean 'status'"),
        (["up", "--prot", "1"], "No such option: --prot"),
        (["-o", "xml", "status"], "-o xml: unknown form"),
        (["status", "--timeout", "soon"], "a number of seconds"),
        (["status", "--output"], "--output: a value is missing"),
        (["up", "--only", "postgress"], "unknown part"),
        (["up", "--only", "core-api"], "services need a database"),
        (["errors", "DR9999"], "no error has the code"),
    ],
)
def test_wrong_usage_says_what_is_wrong_and_exits_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == ExitCode.USAGE
    assert said in capsys.readouterr().err


@pytest.mark.case("U04")
def test_an_address_that_others_can_reach_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["up", "--bind", "0.0.0.0"]) == ExitCode.USAGE  # noqa: S104  it is refused
    shown = capsys.readouterr().err
    assert "DR6040" in shown
    assert "TLS" in shown


@pytest.mark.case("K43")
def test_an_unknown_setting_is_refused_with_the_name_that_was_meant(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATARECS_DATABSE__URL", "postgresql://secret@nowhere/x")
    assert run(["up", "--only", "postgres"]) == ExitCode.ERRORED
    shown = capsys.readouterr().err
    assert "DATARECS_DATABSE__URL is not a setting; did you mean DATARECS_DATABASE__URL?" in shown
    assert "secret" not in shown


def test_global_flags_are_understood_at_any_place() -> None:
    before, rest = parsed("-o", "json", "--quiet", "status", "--data-dir", "x")
    after, same = parsed("status", "--data-dir", "x", "--quiet", "--output=json")
    assert before == after
    assert rest == same == ["status", "--data-dir", "x"]
    assert (before.output, before.quiet) == (Output.JSON, True)


def test_what_follows_two_dashes_belongs_to_the_command() -> None:
    _, rest = parsed("run", "--", "-o", "json")
    assert rest == ["run", "--", "-o", "json"]


def test_verbosity_adds_up() -> None:
    assert parsed("-v", "status", "--verbose")[0].verbose == 2
    assert parsed("-vv")[0].verbose == 2


@pytest.mark.parametrize(
    ("environment", "flags", "wanted"),
    [
        ({}, [], True),
        ({"NO_COLOR": "1"}, [], False),
        ({"TERM": "dumb"}, [], False),
        ({}, ["--no-color"], False),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    environment: dict[str, str], flags: list[str], wanted: bool
) -> None:
    assert parsed(*flags, **environment)[0].color is wanted


def test_a_time_limit_has_to_be_a_time() -> None:
    with pytest.raises(UsageFault, match="above 0"):
        parsed("--timeout", "inf")


def raising(failure: BaseException) -> Invocation:
    raise failure


def test_a_known_error_shows_what_why_fix_and_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert ending(lambda: raising(BUSY), Invocation()) == ExitCode.ERRORED  # type: ignore[arg-type, return-value]  # it never returns
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "DR5009 port 8080 for api is in use by python (pid 7)"
    assert shown[1].startswith("  fix   Stop that program")
    assert shown[2] == "  docs  datarecs errors DR5009"


def test_under_json_an_error_is_one_problem_object_on_stdout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ending(lambda: raising(BUSY), Invocation(output=Output.JSON))  # type: ignore[arg-type, return-value]  # it never returns
    problem = json.loads(capsys.readouterr().out)
    assert (problem["code"], problem["docs_id"], problem["exit_code"]) == ("PORT_BUSY", "DR5009", 3)


def test_control_characters_of_foreign_text_do_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    bad = MachineTooSmallError(what="\x1b[2Jgone")
    ending(lambda: raising(bad), Invocation())  # type: ignore[arg-type, return-value]  # it never returns
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(("verbose", "shown"), [(0, False), (1, False), (2, True)])
def test_a_defect_is_one_sentence_unless_its_traceback_is_requested(
    verbose: int,
    shown: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: object,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code = ending(lambda: raising(ZeroDivisionError("x")), Invocation(verbose=verbose))  # type: ignore[arg-type, return-value]  # it never returns
    said = capsys.readouterr().err
    assert code == ExitCode.ERRORED
    assert "internal error in datarecs (ZeroDivisionError, trace" in said
    assert str(tmp_path) in said
    assert ("Traceback" in said) is shown


@pytest.mark.parametrize("arguments", [["--help"], ["get", "--help"], ["errors"], ["schema"]])
def test_a_reader_that_has_closed_the_pipe_is_no_error(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "datarecs_cli", *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_behind_stdout_is_said() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "datarecs_cli", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr == "stdout cannot be written: No space left on device\n"


def test_an_interrupt_is_130() -> None:
    assert ending(lambda: raising(KeyboardInterrupt()), Invocation()) == 130  # type: ignore[arg-type, return-value]  # it never returns


def test_the_exit_code_follows_the_family_unless_the_error_knows_better() -> None:
    assert exit_code_of(BUSY) is ExitCode.ERRORED
    assert exit_code_of(PublicBindError(address="0.0.0.0")) is ExitCode.USAGE  # noqa: S104  text


@pytest.mark.case("K50")
@pytest.mark.parametrize("code", list(PlatformCode), ids=lambda code: code.docs_id)
def test_every_platform_code_has_its_page(
    code: PlatformCode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["errors", code.docs_id]) == ExitCode.DONE
    page = " ".join(capsys.readouterr().out.split())
    assert code.name in page
    assert " ".join(code.entry.remedy.split()) in page


def test_the_whole_catalogue_is_data_under_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["errors", "-o", "json"]) == ExitCode.DONE
    listed = json.loads(capsys.readouterr().out)["errors"]
    ids = [entry["docs_id"] for entry in listed]
    assert ids == sorted(set(ids))
    assert {code.docs_id for code in PlatformCode} <= set(ids)
