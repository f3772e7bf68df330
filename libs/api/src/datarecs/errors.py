"""Errors of the Python interface, and the border where errors of the command line become these.

A traceback shows only the message, so the code and the fix are added to it as notes.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from datarecs_cli.error_text import fix_of
from datarecs_cli.invocation import UsageFault
from datarecs_cli.local.faults import QuestionRefusedError
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.client import ClientCode


class ArgumentError(DatarecsError, ValueError):
    """An argument of a call cannot be used; the message names it."""

    code = ClientCode.ARGUMENT_INVALID


class Unmatched(AssertionError):  # noqa: N818  a verdict, not a failure
    """The sources do not match; the message is the first screen of the comparison."""


@contextmanager
def explained() -> Iterator[None]:
    """Add code and fix to every error of the block.

    Raises:
        ArgumentError: instead of the error for wrong usage of the command line.
        DatarecsError: with `fix`, and notes for the traceback.
    """
    try:
        yield
    except UsageFault as fault:
        raise _with_notes(ArgumentError(str(fault))) from None
    except DatarecsError as error:
        is_argument = isinstance(error, QuestionRefusedError)
        raise _with_notes(error) from None if is_argument else error.__cause__


def _with_notes(error: DatarecsError) -> DatarecsError:
    hint = error.faults[0].hint if isinstance(error, QuestionRefusedError) else ""
    error.fix = (hint or fix_of(error)).replace("--", "")  # flags are arguments here
    docs_id = error.code.docs_id
    error.add_note(f"  fix   {error.fix}")
    error.add_note(f"  docs  {docs_id} {error.code.name}, datarecs errors {docs_id}")
    return error
