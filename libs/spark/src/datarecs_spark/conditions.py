"""Conditions that people write in a job, made part of a query and of nothing else.

Spark would let a condition read other files through a subquery or call any Java method; validation
refuses both earlier, and here is where they would happen.
"""

import re

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from datarecs_spark.errors import condition_of

_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`", re.DOTALL)
_REFUSED = re.compile(
    r"\b(select|table|values|with|java_method|reflect|try_reflect)\b", re.IGNORECASE
)
_COMMENT = re.compile(r"--|/\*")


class ConditionRefusedError(ValueError):
    """Why a condition cannot be taken; its text is not repeated."""


def filtered(rows: DataFrame, condition: str) -> DataFrame:
    """The rows for which a condition is TRUE.

    Raises:
        ConditionRefusedError: it is no scalar expression over the columns of the rows.
    """
    check(condition)
    try:
        return rows.filter(f"({condition}\n)")
    except (AnalysisException, ParseException) as cause:
        raise ConditionRefusedError(f"Spark does not take it ({condition_of(cause)})") from cause


def check(condition: str) -> None:
    """Raises ConditionRefusedError for subqueries, comments and calls into Java."""
    bare = _QUOTED.sub("''", condition)
    found = _REFUSED.search(bare)
    if found is not None:
        raise ConditionRefusedError(
            f"{found[1]!r} is not allowed in it; a column of that name is written in backticks"
        )
    if _COMMENT.search(bare):
        raise ConditionRefusedError("a comment is not allowed in it")
