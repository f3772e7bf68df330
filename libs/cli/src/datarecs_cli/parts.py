"""The parts of the product that an installation may lack, by the extra that brings them.

`pip install datarecs` brings what compares on one machine. Whoever needs more asks here first, so
that a missing part is one line with the command that installs it, never a failed import.
"""

from collections.abc import Mapping
from enum import StrEnum
from importlib.util import find_spec

from datarecs_cli.invocation import UsageFault


class Extra(StrEnum):
    """As in `pip install 'datarecs[spark]'`."""

    SPARK = "spark"
    SERVER = "server"
    LOCAL = "local"


_PACKAGES: Mapping[Extra, tuple[str, ...]] = {
    Extra.SPARK: ("pyspark",),
    Extra.SERVER: ("fastapi", "kafka", "sqlalchemy"),
    Extra.LOCAL: ("fastapi", "kafka", "pyspark", "sqlalchemy"),
}
"""Import packages by which an extra is recognised; any PostgreSQL will do for the local stack."""


def is_installed(extra: Extra) -> bool:
    """Whether this Python can import the parts of an extra; nothing is imported for it."""
    return not _missing(extra)


def require(extra: Extra, what: str) -> None:
    """Go on only where the extra is installed.

    Args:
        extra: that brings the parts.
        what: needs them, as it was typed.

    Raises:
        UsageFault: they are not installed.
    """
    missing = _missing(extra)
    if missing:
        raise UsageFault(
            f"{what} needs parts that are not installed ({', '.join(missing)}); "
            f"install them with: pip install 'datarecs[{extra}]'"
        )


def _missing(extra: Extra) -> list[str]:
    return [name for name in _PACKAGES[extra] if find_spec(name) is None]
