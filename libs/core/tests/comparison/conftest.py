"""Every test here runs where arithmetic of the ambient context fails: core brings one."""

from collections.abc import Iterator
from decimal import (
    ROUND_UP,
    Context,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
    localcontext,
)

import pytest

ONE_DIGIT = Context(
    prec=1, rounding=ROUND_UP, traps=[Inexact, InvalidOperation, DivisionByZero, Overflow]
)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Iterator[None]:
    """An operation that forgets its context meets one that refuses to round."""
    with localcontext(ONE_DIGIT):
        return (yield)
