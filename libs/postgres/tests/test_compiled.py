"""What the driver gets of a statement that is compiled once."""

from sqlalchemy import bindparam, update

from datarecs_postgres.compiled import compiled
from datarecs_postgres.tables.runs import RUN

SAVE = update(RUN).where(RUN.c.run_id == bindparam("of_run")).values(attempt=RUN.c.attempt + 1)


def test_a_statement_sets_the_columns_that_are_named_and_those_of_the_statement() -> None:
    values = {"wish": "STOP", "of_run": "r"}
    made = compiled(SAVE, values)
    assert made.text == (
        b"UPDATE datarecs.run SET wish=%(wish)s::VARCHAR,"
        b" attempt=(datarecs.run.attempt + %(attempt_1)s::INTEGER)"
        b" WHERE datarecs.run.run_id = %(of_run)s::UUID"
    )
    assert made.values(values) == {"wish": "STOP", "of_run": "r", "attempt_1": 1}


def test_other_columns_are_another_text_and_the_same_ones_are_not_compiled_again() -> None:
    stop, again = {"wish": "STOP", "of_run": "a"}, {"wish": "RUN", "of_run": "b"}
    assert compiled(SAVE, stop) is compiled(SAVE, again)
    assert compiled(SAVE, stop) is not compiled(SAVE, {"result": None, "of_run": "a"})


def test_a_json_value_is_wrapped_and_none_stays_null() -> None:
    made = compiled(update(RUN), {"summary": None, "pins": None})
    filled = made.values({"summary": {"empty": True}, "pins": None})
    assert filled["pins"] is None
    assert getattr(filled["summary"], "obj", None) == {"empty": True}
