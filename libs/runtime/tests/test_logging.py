import io
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest
import structlog

from datarecs_runtime.logging import MAX_LINE_BYTES, configure, log_what_nobody_catches
from datarecs_runtime.sections import Log, LogFormat

CANARY = "Zebra77Quagga"


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    stream = io.StringIO()
    configure("core-api", Log(), stream=stream)
    yield stream
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)


def lines(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_record_is_one_json_line_with_its_static_event_and_fields(out: io.StringIO) -> None:
    structlog.get_logger().info("run_closed", result="MATCHED", duration_ms=4)
    (line,) = lines(out)
    stamp = str(line.pop("timestamp"))
    assert stamp.endswith("Z")
    assert line == {
        "service": "core-api",
        "level": "info",
        "event": "run_closed",
        "result": "MATCHED",
        "duration_ms": 4,
    }


def test_what_a_loop_bound_once_stands_on_every_line(out: io.StringIO) -> None:
    with structlog.contextvars.bound_contextvars(run_id="r1", trace_id="t1"):
        structlog.get_logger().warning("late_fact")
    structlog.get_logger().info("run_closed")
    assert [line.get("run_id") for line in lines(out)] == ["r1", None]


def test_below_the_level_nothing_is_written(out: io.StringIO) -> None:
    structlog.get_logger().debug("detail")
    assert out.getvalue() == ""


@pytest.mark.case("X64")
def test_secrets_are_masked_by_name_and_by_shape(out: io.StringIO) -> None:
    log = structlog.get_logger()
    log.info("seen", headers={"Authorization": CANARY}, url=f"https://u:{CANARY}@h/")
    log.info("seen", nested=[{"db": {"password": CANARY}}], text=f"whsec_{CANARY}")
    assert CANARY not in out.getvalue()


@pytest.mark.case("X64")
@pytest.mark.case("X68")
def test_a_driver_error_holding_a_dsn_is_masked_in_its_traceback(out: io.StringIO) -> None:
    def connect() -> None:
        raise OSError(f"could not connect to postgresql://api:{CANARY}@db/datarecs")

    try:
        connect()
    except OSError:
        structlog.get_logger().exception("loop_failed")
    assert CANARY not in out.getvalue()
    assert "OSError" in out.getvalue()


def test_lines_of_libraries_take_the_same_way(out: io.StringIO) -> None:
    logging.getLogger("kafka.conn").warning("lost %s password=%s", "broker", CANARY)
    logging.getLogger("kafka.conn").info("chatter")
    (line,) = lines(out)
    assert (line["event"], line["library"], line["level"]) == ("library", "kafka.conn", "warning")
    assert line["message"] == "lost broker password=***"
    assert line["service"] == "core-api"


def test_a_line_break_in_a_value_makes_no_second_line(out: io.StringIO) -> None:
    structlog.get_logger().info("seen", text='a\n{"event":"forged"}\r\u2028b')
    assert len(out.getvalue().splitlines()) == 1


def test_long_values_are_cut_and_a_record_that_is_still_too_long_preserves_its_core(
    out: io.StringIO,
) -> None:
    log = structlog.get_logger()
    log.info("long", text="x" * 5000)
    log.info("longer", run_id="r1", **{f"field_{number}": "x" * 1999 for number in range(9)})
    cut, core = out.getvalue().splitlines()
    assert max(len(cut), len(core)) <= MAX_LINE_BYTES
    assert json.loads(cut)["text"].endswith("x…")
    assert json.loads(core)["run_id"] == "r1"
    assert json.loads(core)["cut"] is True


def test_the_end_of_a_long_traceback_is_preserved(out: io.StringIO) -> None:
    message = "first" + "é" * 20_000 + "ValueError: the cause"
    structlog.get_logger().error("failed", exception=message)
    structlog.get_logger().error("failed", exception=message, other={"x": "y" * 6000})
    for line in out.getvalue().splitlines():
        assert len(line) <= MAX_LINE_BYTES
        exception = json.loads(line)["exception"]
        assert exception.startswith("first")
        assert exception.endswith("ValueError: the cause")


@pytest.fixture
def _hooks() -> Iterator[None]:
    before = sys.excepthook, threading.excepthook, sys.unraisablehook
    yield
    sys.excepthook, threading.excepthook, sys.unraisablehook = before
    logging.captureWarnings(capture=False)


@pytest.mark.usefixtures("_hooks")
def test_what_nobody_catches_is_a_record_with_its_traceback_in_a_field(out: io.StringIO) -> None:
    log_what_nobody_catches()

    def fail() -> None:
        raise OSError(f"postgresql://api:{CANARY}@db/x")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    try:
        fail()
    except OSError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    events = [line["event"] for line in lines(out)]
    assert events == ["uncaught_in_thread", "uncaught"]
    assert all("Traceback" in str(line["exception"]) for line in lines(out))
    assert CANARY not in out.getvalue()


@pytest.mark.usefixtures("_hooks")
def test_a_warning_of_python_is_a_record(out: io.StringIO) -> None:
    log_what_nobody_catches()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("old spelling", stacklevel=1)
    (line,) = lines(out)
    assert (line["event"], line["library"]) == ("library", "py.warnings")


def test_the_console_form_is_for_reading_along(out: io.StringIO) -> None:
    configure("core-api", Log(format=LogFormat.CONSOLE), stream=out)
    structlog.get_logger().info("run_closed", result="MATCHED")
    assert "run_closed" in out.getvalue()
    assert not out.getvalue().startswith("{")
