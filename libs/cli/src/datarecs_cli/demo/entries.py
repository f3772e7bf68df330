"""The demo's two sources as rows: a ledger, and its exports before and after correction.

Every row is computed from its account number, so each start makes the same data. The numbers are
those of the `run.comparison.completed` sample of Source 001, and the amounts are chosen so that
the gap is -1,234.56.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

ACCOUNTS: Final = range(4001, 5006)
ONLY_IN_EXPORTS: Final = range(4986, 5006)
"""Accounts opened after the ledger was closed."""
ONLY_IN_LEDGER: Final = (4021, 4178, 4402, 4633, 4855)
CHANGED_CENTS: Final[Mapping[int, int]] = {
    4711: -100_000,
    4123: -25_000,
    4356: 8_000,
    4588: -4_025,
    4902: 1_575,
}
"""Accounts outside the tolerance: exports minus ledger, in cents."""
ROUNDED_CENTS: Final[Mapping[int, int]] = {
    4035 + 90 * step: (1 if step % 2 else -1) for step in range(10)
}
"""Accounts that differ by exactly the tolerance: within, but not equal; they cancel out."""
TWICE_IN_LEDGER: Final = frozenset(range(4016, 4976, 64))
TWICE_IN_EXPORTS: Final = frozenset({4064, 4256, 4448, 4640, 4832})
"""Accounts of two entries: the sums agree although the rows do not."""
GAP_CENTS: Final = -123_456
"""Sum of the exports minus sum of the ledger, in cents."""
_FIRST_DAY = date(2026, 1, 2)
_LARGEST_CENTS = 150_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    entry_id: int
    account: int
    booked_on: date
    amount: Decimal
    currency: str = "EUR"


def ledger() -> list[Entry]:
    """1,000 entries of 985 accounts."""
    return list(_entries(_ledger_cents(), TWICE_IN_LEDGER, first_id=100_001))


def exports(*, corrected: bool) -> list[Entry]:
    """1,005 entries of 1,000 accounts; corrected 990 of the ledger's 985 accounts."""
    cents = {
        account: amount + ROUNDED_CENTS.get(account, 0)
        for account, amount in _ledger_cents().items()
    }
    if not corrected:
        cents = {
            account: amount + CHANGED_CENTS.get(account, 0)
            for account, amount in cents.items()
            if account not in ONLY_IN_LEDGER
        } | _unbooked_cents()
    return list(_entries(cents, TWICE_IN_EXPORTS, first_id=700_001))


def _ledger_cents() -> dict[int, int]:
    cents = {
        account: 10_000 + account * 7_919 % 900_000
        for account in ACCOUNTS
        if account not in ONLY_IN_EXPORTS
    }
    return cents | {4711: _LARGEST_CENTS}


def _unbooked_cents() -> dict[int, int]:
    """Accounts that only the exports have, with amounts that make up the gap."""
    ledger_cents = _ledger_cents()
    missing = sum(ledger_cents[account] for account in ONLY_IN_LEDGER)
    wanted = GAP_CENTS - sum(CHANGED_CENTS.values()) + missing
    share, middle = wanted // len(ONLY_IN_EXPORTS), len(ONLY_IN_EXPORTS) // 2
    *most, last = ONLY_IN_EXPORTS
    cents = {account: share + (place - middle) * 1_013 for place, account in enumerate(most)}
    return cents | {last: wanted - sum(cents.values())}


def _entries(cents: Mapping[int, int], twice: frozenset[int], *, first_id: int) -> Iterator[Entry]:
    entry_id = first_id
    for account, amount in sorted(cents.items()):
        parts = (amount // 3, amount - amount // 3) if account in twice else (amount,)
        for part in parts:
            yield Entry(
                entry_id=entry_id,
                account=account,
                booked_on=_FIRST_DAY + timedelta(days=account * 31 % 28),
                amount=Decimal(part).scaleb(-2),
            )
            entry_id += 1
