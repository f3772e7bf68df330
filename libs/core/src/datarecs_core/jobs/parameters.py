"""Parameters of a job: from written text to typed values, and which value a run gets.

A separate module because the same rules serve the job file (defaults and allowed values), the
trigger (values passed) and the planner (typed literals): a value is parsed, never pasted.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from typing import assert_never

from datarecs_core.errors.faults import Fault, Path, Place, did_you_mean
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import Parameter
from datarecs_core.jobs.moments import evaluate, is_expression, local_instant, parse_moment
from datarecs_core.jobs.vocabulary import ParameterType
from datarecs_core.notation import parse_decimal
from datarecs_core.values import instant_text

MAX_LIST = 1_000
MAX_TEXT = 4_096

Value = str | int | Decimal | bool | date | datetime
"""A typed value: text, int64, exact decimal, truth, date, aware UTC time."""

_INT = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_INT64 = 2**63
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
FORMS: Mapping[ParameterType, str] = {
    ParameterType.TEXT: f"text of at most {MAX_TEXT} characters without NUL",
    ParameterType.INT: "a whole number of 64 bits",
    ParameterType.DECIMAL: "a decimal such as -12.50",
    ParameterType.DATE: "an existing date such as 2026-01-31",
    ParameterType.TIMESTAMP: "a time with its offset, such as 2026-01-31T12:00:00Z",
    ParameterType.BOOL: "true or false",
}


def parse_literal(text: str, wanted: ParameterType) -> Value | None:
    """The value that a text means as this type; None when it means none."""
    match wanted:
        case ParameterType.TEXT:
            return text if len(text) <= MAX_TEXT and "\0" not in text and _encodes(text) else None
        case ParameterType.INT:
            number = int(text) if _INT.fullmatch(text) else _INT64
            return number if -_INT64 <= number < _INT64 else None
        case ParameterType.DECIMAL:
            return parse_decimal(text, signed=True)
        case ParameterType.DATE:
            return _parse_date(text)
        case ParameterType.TIMESTAMP:
            return _parse_timestamp(text)
        case ParameterType.BOOL:
            return {"true": True, "false": False}.get(text)
    assert_never(wanted)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse_date(text: str) -> date | None:
    if not _DATE.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _parse_timestamp(text: str) -> datetime | None:
    if not _TIMESTAMP.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def literal_text(value: Value) -> str:
    """The canonical text of a value, which `parse_literal` reads back."""
    match value:
        case bool():
            return "true" if value else "false"
        case Decimal():
            return format(value, "f")
        case datetime():
            return instant_text(value)
        case date():
            return value.isoformat()
        case _:
            return str(value)


def _scalar_text(value: object, wanted: ParameterType) -> str | None:
    """A JSON scalar as the text to parse; a number is no text parameter."""
    match value:
        case str():
            return value
        case bool():
            return literal_text(value) if wanted is ParameterType.BOOL else None
        case int() | Decimal() if wanted in {ParameterType.INT, ParameterType.DECIMAL}:
            return literal_text(value)
        case _:
            return None


def parameter_faults(declared: Parameter, at: Path) -> tuple[Fault, ...]:
    """What is wrong with the declared default and allowed values."""
    faults = [
        _not_convertible((*at, "allowed", index), declared.type)
        for index, one in enumerate(declared.allowed)
        if typed(one, declared.type) is None
    ]
    default = declared.default
    if isinstance(default, str) and is_expression(default):
        faults += _expression_faults(default, declared, (*at, "default"))
    elif default is not None and not faults:
        faults += convert(default, declared, at=(*at, "default"))[1]
    return tuple(faults)


def _expression_faults(text: str, declared: Parameter, at: Path) -> list[Fault]:
    if parse_moment(text) is None:
        return [
            Fault(
                code=SpecCode.BAD_DATE_EXPRESSION,
                path=at,
                message="the expression cannot be evaluated",
                hint="write for instance {{ run.date - 1d }} or {{ run.timestamp month_start }}",
            )
        ]
    if declared.type in {ParameterType.DATE, ParameterType.TIMESTAMP, ParameterType.TEXT}:
        return []
    message = f"a date or time where {FORMS[declared.type]} belongs"
    return [Fault(code=SpecCode.VALUE_NOT_CONVERTIBLE, path=at, message=message)]


def typed(value: object, wanted: ParameterType) -> Value | None:
    """A JSON scalar as this type; None when it is not one."""
    text = _scalar_text(value, wanted)
    return None if text is None else parse_literal(text, wanted)


def _not_convertible(at: Path, wanted: ParameterType) -> Fault:
    return Fault(code=SpecCode.VALUE_NOT_CONVERTIBLE, path=at, message=f"not {FORMS[wanted]}")


def convert(
    value: object, declared: Parameter, *, at: Path
) -> tuple[Value | tuple[Value, ...] | None, list[Fault]]:
    """A passed value as the parameter's type, or None and the reason.

    A single value is a list of one where the parameter is a list.
    """
    if not declared.many:
        return _convert_one(value, declared, at)
    items = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    if not 1 <= len(items) <= MAX_LIST:
        message = f"{len(items)} values; 1 to {MAX_LIST} are allowed"
        return None, [Fault(code=SpecCode.BAD_LENGTH, path=at, message=message)]
    pairs = [_convert_one(item, declared, (*at, index)) for index, item in enumerate(items)]
    faults = [fault for _, some in pairs for fault in some]
    values = tuple(value for value, _ in pairs if value is not None)
    return (None if faults else values), faults


def _convert_one(value: object, declared: Parameter, at: Path) -> tuple[Value | None, list[Fault]]:
    typed_value = typed(value, declared.type)
    if typed_value is None:
        return None, [_not_convertible(at, declared.type)]
    allowed = {typed(one, declared.type) for one in declared.allowed}
    if allowed and typed_value not in allowed:
        message = "not one of the allowed values of the parameter"
        return None, [Fault(code=SpecCode.VALUE_NOT_CONVERTIBLE, path=at, message=message)]
    return typed_value, []


def resolve_parameters(
    declared: Mapping[str, Parameter],
    arguments: Mapping[str, object],
    *,
    moment: datetime,
    zone: tzinfo,
) -> tuple[Mapping[str, Value | tuple[Value, ...]], tuple[Fault, ...]]:
    """The value of every parameter for one run, or all faults of the passed values.

    Args:
        declared: the job's parameters.
        arguments: values of the trigger, JSON or command line texts.
        moment: nominal slot of a scheduled run, else the trigger's time.
        zone: the job's zone.

    Returns:
        Values by name, complete when there is no fault. Paths start at `parameters`.
    """
    values: dict[str, Value | tuple[Value, ...]] = {}
    faults = [_undeclared(name, declared) for name in arguments if name not in declared]
    for name, parameter in declared.items():
        at: Path = ("parameters", name)
        if name in arguments:
            value, wrong = convert(arguments[name], parameter, at=at)
        elif parameter.default is None:
            value, wrong = None, [_missing(name)]
        else:
            value, wrong = _default_value(parameter, at, moment=moment, zone=zone)
        faults += wrong
        if value is not None:
            values[name] = value
    return values, tuple(faults)


def _undeclared(name: str, declared: Mapping[str, Parameter]) -> Fault:
    return Fault(
        code=SpecCode.UNDECLARED_PARAMETER,
        path=("parameters", name),
        message="the job declares no such parameter",
        hint=did_you_mean(name, declared),
        place=Place.KEY,
    )


def _missing(name: str) -> Fault:
    return Fault(
        code=SpecCode.MISSING_FIELD,
        path=("parameters", name),
        message=f"the parameter '{name}' has no default and no value was passed",
        place=Place.MISSING,
    )


def _default_value(
    declared: Parameter, at: Path, *, moment: datetime, zone: tzinfo
) -> tuple[Value | tuple[Value, ...] | None, list[Fault]]:
    default = declared.default
    expression = parse_moment(default) if isinstance(default, str) else None
    if expression is None:
        return convert(default, declared, at=at)
    try:
        default_moment = evaluate(expression, moment, zone)
    except OverflowError:
        message = "the result is outside the years 1 to 9999"
        return None, [Fault(code=SpecCode.BAD_DATE_EXPRESSION, path=at, message=message)]
    return convert(literal_text(_fitted(default_moment, declared.type, zone)), declared, at=at)


def _fitted(moment: date | datetime, wanted: ParameterType, zone: tzinfo) -> date | datetime:
    """Converts a date to its first instant, or a time to its day, as the parameter needs."""
    if wanted is ParameterType.DATE and isinstance(moment, datetime):
        return moment.astimezone(zone).date()
    if wanted is ParameterType.TIMESTAMP and not isinstance(moment, datetime):
        return local_instant(moment, datetime.min.time(), zone)
    return moment


def parameters_document(
    values: Mapping[str, Value | tuple[Value, ...]],
) -> Mapping[str, str | list[str]]:
    """Values as canonical texts, as a run stores and hashes them."""
    return {
        name: [literal_text(one) for one in value]
        if isinstance(value, tuple)
        else literal_text(value)
        for name, value in values.items()
    }


def typed_parameters(
    declared: Mapping[str, Parameter], stored: Mapping[str, object]
) -> Mapping[str, Value | tuple[Value, ...]]:
    """What a run stored, as typed values again.

    Raises:
        ValueError: the stored values are not of the declared types, which a run cannot have.
    """
    values: dict[str, Value | tuple[Value, ...]] = {}
    for name, parameter in declared.items():
        value, faults = convert(stored[name], parameter, at=("parameters", name))
        if value is None or faults:
            raise ValueError(f"the stored parameter {name} is not of its declared type")
        values[name] = value
    return values
