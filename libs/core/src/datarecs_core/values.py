"""Typed ids, aware time and the exact decimal context: the values every concept shares."""

import decimal
from datetime import UTC, datetime
from decimal import Decimal
from typing import NewType
from uuid import UUID

TenantId = NewType("TenantId", UUID)
RunId = NewType("RunId", UUID)
JobId = NewType("JobId", UUID)
"""The uid of a ReconciliationJob resource."""
EventId = NewType("EventId", UUID)
ResourceUid = NewType("ResourceUid", UUID)

EXACT = decimal.Context(
    prec=800,
    Emin=-999_999,
    Emax=999_999,
    traps=[decimal.Inexact, decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
)
"""Arithmetic on measures: 800 digits hold the gap of any two doubles or decimals of 38 digits,
and `Inexact` is trapped, so nothing is ever rounded. `copy_abs` and `copy_negate` instead of `abs`
and unary minus, which round to the ambient context."""

HUNDRED = Decimal(100)


def aware(moment: datetime) -> datetime:
    """The same instant in UTC.

    Raises:
        ValueError: the moment is naive; time without a zone is refused at every border.
    """
    if moment.utcoffset() is None:
        raise ValueError("a time without a zone is refused")
    return moment.astimezone(UTC)


def instant_text(moment: datetime) -> str:
    """RFC 3339 in UTC with six fractional digits and `Z`, as in events, files and REST.

    Raises:
        ValueError: the moment is naive.
    """
    return aware(moment).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
