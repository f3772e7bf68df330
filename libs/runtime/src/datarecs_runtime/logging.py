"""Logging of all processes: one JSON line per record, redacted, at most 8 kB, to standard output.

Records of libraries are processed in the same way. Code logs a static snake_case event and fields:
`log = structlog.get_logger()`, `log.info("run_closed", result="MATCHED")`.
"""

import json
import logging
import sys
import threading
from collections.abc import Callable, Mapping, MutableMapping
from typing import TextIO

import structlog

from datarecs_runtime.redaction import redacted
from datarecs_runtime.sections import Log, LogFormat

MAX_LINE_BYTES = 8192
_MAX_VALUE_CHARACTERS = 2000
_LONG_TEXTS = frozenset({"exception", "message"})
_MAX_LONG_CHARACTERS, _MAX_CUT_CHARACTERS = 5000, 1000
_TAIL_SHARE = 3
"""The kept end of a long text is three times as long as its beginning: it names the error."""
_ESSENTIAL_KEYS = frozenset({"timestamp", "level", "service", "event", "run_id", "trace_id"})

Record = MutableMapping[str, object]
Processor = Callable[[object, str, Record], Record]


def configure(service: str, log: Log, *, stream: TextIO | None = None) -> None:
    """Set up structlog and the standard library's root logger. Call once, first thing in main.

    Args:
        service: name of the process, in every line.
        log: level and format.
        stream: target of lines; None: the current standard output.
    """
    out = sys.stdout if stream is None else stream
    level = logging.getLevelNamesMapping()[log.level.upper()]
    before: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
    ]
    after: list[structlog.typing.Processor] = [_with_service(service), mask_secrets, shorten]
    after.append(_renderer(log.format))
    structlog.configure(
        processors=[*before, *after],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*before, structlog.stdlib.ExtraAdder(), _mark_foreign],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *after],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.WARNING))


def log_what_nobody_catches() -> None:
    """Also log uncaught exceptions and warnings of Python. Call once, in a service."""
    log = structlog.get_logger()

    def in_main(kind: type[BaseException], error: BaseException, trace: object) -> None:
        log.critical("uncaught", exc_info=(kind, error, trace))

    def in_thread(details: threading.ExceptHookArgs) -> None:
        log.error("uncaught_in_thread", exc_info=details.exc_value)

    def unraisable(details: "sys.UnraisableHookArgs") -> None:
        log.error("uncaught_in_finalizer", exc_info=details.exc_value)

    sys.excepthook, threading.excepthook, sys.unraisablehook = in_main, in_thread, unraisable
    logging.captureWarnings(capture=True)


def mask_secrets(_logger: object, _method: str, record: Record) -> Record:
    """Replace known keys and forms of secrets, anywhere in the record, with `***`."""
    masked = redacted(record)
    return dict(masked) if isinstance(masked, Mapping) else {}


def shorten(_logger: object, _method: str, record: Record) -> Record:
    """Cut long texts; a record that is still too long has only its core fields."""
    cut = {key: _short(key, value) for key, value in record.items()}
    if len(json.dumps(cut, default=str)) <= MAX_LINE_BYTES:
        return cut
    return {
        **{key: value for key, value in cut.items() if key in _ESSENTIAL_KEYS},
        **{key: _ends(str(cut[key]), _MAX_CUT_CHARACTERS) for key in _LONG_TEXTS & cut.keys()},
        "cut": True,
    }


def _short(key: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    if key in _LONG_TEXTS:
        return _ends(value, _MAX_LONG_CHARACTERS)
    return value if len(value) <= _MAX_VALUE_CHARACTERS else f"{value[:_MAX_VALUE_CHARACTERS]}…"


def _ends(text: str, most: int) -> str:
    """The beginning and the end of a text with more than so many characters."""
    if len(text) <= most:
        return text
    head = most // (_TAIL_SHARE + 1)
    return f"{text[:head]}…{text[-(most - head) :]}"


def _with_service(service: str) -> Processor:
    def add(_logger: object, _method: str, record: Record) -> Record:
        core = {name: record[name] for name in ("timestamp", "level") if name in record}
        return {**core, "service": service, "event": record.get("event"), **record}

    return add


def _mark_foreign(_logger: object, _method: str, record: Record) -> Record:
    """A record of a library has its text as `message` and one static event name."""
    origin = record.get("_record")
    name = origin.name if isinstance(origin, logging.LogRecord) else "unknown"
    return {**record, "event": "library", "message": record.get("event"), "library": name}


def _renderer(form: LogFormat) -> structlog.typing.Processor:
    if form is LogFormat.CONSOLE:
        return structlog.dev.ConsoleRenderer(colors=False)
    return structlog.processors.JSONRenderer()
