"""Starts and continues traces, and selects the exporter of spans.

Events, logs and outgoing requests have the same 55 characters of a W3C traceparent, with or without
an exporter. The exporter is loaded only if an endpoint is configured; otherwise a process stores no
spans and does not import OpenTelemetry.
"""

import secrets
from contextvars import ContextVar
from importlib import import_module
from typing import cast

from datarecs_application.tracing import UNTRACED, Tracing, parts_of
from datarecs_core.errors.process import SettingsError
from datarecs_runtime.sections import Otel

_arrived: ContextVar[tuple[str, str] | None] = ContextVar("arrived", default=None)


def tracing_of(otel: Otel, service: str) -> Tracing:
    """Tracing of this process; call its `close` at the end of the process.

    Raises:
        SettingsError: an endpoint is set and the extra `otlp` is not installed.
    """
    if otel.endpoint is None:
        return UNTRACED
    try:
        exporting = import_module("datarecs_runtime.span_export")
    except ModuleNotFoundError as missing:
        said = f"DATARECS_OTEL__ENDPOINT needs the package {missing.name}; install it with:"
        raise SettingsError((f"{said} pip install 'datarecs[otlp]'",)) from missing
    return cast("Tracing", exporting.ExportedTracing.to(otel.endpoint, service))


def new_traceparent() -> str:
    """A new, sampled trace with its first span."""
    return f"00-{_random_hex(16)}-{_random_hex(8)}-01"


def child_of(traceparent: str | None) -> str:
    """A new span of the same trace; a new trace if there is none or it is malformed."""
    parts = parts_of(traceparent)
    if parts is None:
        return new_traceparent()
    return f"00-{parts[0]}-{_random_hex(8)}-{parts[2]}"


def arrival(traceparent: str | None) -> str:
    """`child_of` for a request: a run that it triggers is below the caller's span."""
    child = child_of(traceparent)
    _arrived.set(None if traceparent is None else (child, traceparent))
    return child


def caller_of(traceparent: str | None) -> str | None:
    """The original traceparent of a request, by the one that `arrival` made for it."""
    arrived = _arrived.get()
    return arrived[1] if arrived is not None and arrived[0] == traceparent else None


def _random_hex(count: int) -> str:
    # All zeros mean "no id"; setting the lowest bit excludes them and costs one bit.
    return (int.from_bytes(secrets.token_bytes(count)) | 1).to_bytes(count).hex()
