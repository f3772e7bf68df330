"""Parses `--param NAME=VALUE`; the job's declaration decides the type of a value."""

from collections.abc import Sequence

from datarecs_cli.invocation import UsageFault


def named_values(pairs: Sequence[str]) -> dict[str, object]:
    """Values by name; a repeated name makes a list.

    Raises:
        UsageFault: a pair without a name or without `=`.
    """
    values: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageFault(f"--param {pair}: write NAME=VALUE")
        before = values.get(name)
        match before:
            case None:
                values[name] = value
            case list():
                before.append(value)
            case _:
                values[name] = [before, value]
    return values
