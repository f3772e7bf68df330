"""Whether a total of a measure is meaningful, and which part of a key is its currency or unit.

The job decides with `adds_up`; without it, the function and the words of the names decide:
amounts and quantities add up, prices, rates, percentages and ids do not. A separate module because
every output with a total or a gap uses this one rule.
"""

import re
from collections.abc import Iterable, Sequence

from datarecs_core.jobs.vocabulary import Function

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_LABEL = re.compile(r"[\w%$£€¥°.^-][\w%$£€¥°.^/ -]{0,15}")
"""Short and plain: it is shown with totals, also to readers without access to values of rows."""


def _words(name: str) -> tuple[str, ...]:
    """`tradeCcy`, `TRADE_CCY` and `trade-ccy` are the words trade and ccy."""
    return tuple(word.lower() for word in _WORD.findall(name))


_ADDS_UP = frozenset(
    _words(
        "amount amounts amt balance balances cash cashflow cashflows collateral commission "
        "commissions cost costs count counts credit credits debit debits expense expenses "
        "exposure fee fees gross holding holdings income inventory loss losses net nominal "
        "notional paid payment payments pieces pnl premium premiums principal proceeds profit "
        "profits qty quantities quantity revenue revenues salaries salary sales shares stock "
        "subtotal sum tax taxes total totals turnover units value vat volume volumes wage wages"
    )
)
_NEVER = frozenset(
    _words(
        "average avg code coupon factor fx id ids index key max maximum mean median min minimum "
        "multiplier nav nr number pct per percent percentage percentages price prices px quote "
        "rank rate rates ratio ratios score spread strike unit yield yields"
    )
)
_UNITS = frozenset(_words("ccy currencies currency uom"))
_UNIT_NAMES = frozenset(
    [("unit",), ("unit", "code"), ("unit", "of", "measure"), ("measure", "unit"), ("units",)]
)


def adds_up(names: Iterable[str], function: Function, *, declared: bool | None) -> bool:
    """Whether the total of a measure over all its groups is an amount that people may read.

    Args:
        names: of the measure and of its column.
        function: what the stage makes of the column.
        declared: the job's `adds_up`; None where it is silent.
    """
    if declared is not None:
        return declared
    words = {word for name in names for word in _words(name)}
    match function:
        case Function.COUNT:
            return True
        case Function.SUM:  # the job declares a sum
            return not words & _NEVER
        case Function.VALUE:
            return bool(words & _ADDS_UP) and not words & _NEVER
        case _:
            return False


def is_unit(names: Iterable[str]) -> bool:
    """Whether a dimension holds the currency or unit of the amounts beside it.

    Args:
        names: of the dimension and of its columns.
    """
    return any(_UNITS & set(words) or words in _UNIT_NAMES for words in map(_words, names))


def unit_column(dimensions: Iterable[Sequence[str]], texts: Iterable[Sequence[str]]) -> str | None:
    """The compared text by which the amounts of a stage may have several currencies or units.

    Args:
        dimensions: of each its name and the names of its columns.
        texts: the same of each measure of texts.

    Returns:
        The name of the measure; None where there is none, or where a dimension is the unit.
    """
    if any(map(is_unit, dimensions)):
        return None
    return next((names[0] for names in texts if is_unit(names)), None)


def unit_label(parts: Sequence[str | None]) -> str | None:
    """`USD` of the key's parts that hold a unit; None where they are not a short word."""
    label = "/".join("NULL" if part is None else part for part in parts)
    return label if _LABEL.fullmatch(label) else None
