"""Optional parts of the product, by the extra that installs them.

`pip install datarecs` installs what compares on one machine. Commands that need more check it
here, so that a missing part is one line with the command that installs it, not a failed import.
"""

from collections.abc import Mapping
from enum import StrEnum
from importlib.util import find_spec

from datarecs_cli.invocation import UsageFault


class Extra(StrEnum):
    """The name of an extra, as in `pip install 'datarecs[spark]'`."""

    ALL = "all"
    ICEBERG = "iceberg"
    SPARK = "spark"
    SERVER = "server"
    LOCAL = "local"
    STORES = "stores"


_PACKAGES: Mapping[Extra, tuple[str, ...]] = {
    Extra.ALL: ("fastapi", "kafka", "pyspark", "sqlalchemy"),
    Extra.ICEBERG: ("pyiceberg",),
    Extra.SPARK: ("pyspark",),
    Extra.SERVER: ("fastapi", "kafka", "sqlalchemy"),
    Extra.LOCAL: ("fastapi", "kafka", "pyspark", "sqlalchemy"),
    Extra.STORES: ("obstore",),
}
"""Packages that show that an extra is installed; the local stack can use any PostgreSQL."""


def is_installed(extra: Extra) -> bool:
    """Whether this Python has the packages of an extra; they are not imported."""
    return not _missing(extra)


def require(what: str, *extras: Extra) -> None:
    """Check that all extras are installed.

    Args:
        what: the command or option that needs them, as typed.
        extras: the extras with its parts; a missing part is named with all of them.

    Raises:
        UsageFault: a part is not installed.
    """
    missing = [name for extra in extras for name in _missing(extra)]
    if missing:
        raise UsageFault(
            f"{what} needs parts that are not installed ({', '.join(missing)}); "
            f"install them with: pip install 'datarecs[{','.join(extras)}]'"
        )


def _missing(extra: Extra) -> list[str]:
    return [name for name in _PACKAGES[extra] if find_spec(name) is None]
