import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.webhooks.dialects import Dialect, Expression, all_hold, holds
from datarecs_core.webhooks.endpoint import Filter, WebhookEndpoint, endpoint_faults

RUN = {"type": "io.datarecs.reconciliation.run.finalised", "subject": "run/7"}
TRUE = Expression(dialect=Dialect.EXACT, attributes={"subject": "run/7"})
FALSE = Expression(dialect=Dialect.EXACT, attributes={"subject": "run/8"})


def compare(dialect: Dialect, **attributes: str) -> Expression:
    return Expression(dialect=dialect, attributes=attributes)


def combine(dialect: Dialect, *parts: Expression) -> Expression:
    return Expression(dialect=dialect, parts=parts)


def nested(depth: int) -> Expression:
    return TRUE if depth == 1 else combine(Dialect.NOT, nested(depth - 1))


@pytest.mark.case("W05")
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (compare(Dialect.EXACT, subject="run/7"), True),
        (compare(Dialect.EXACT, subject="RUN/7"), False),
        (compare(Dialect.EXACT, subject="run"), False),
        (compare(Dialect.EXACT, dataref="x"), False),
        (compare(Dialect.EXACT, subject="run/7", dataref="x"), False),
        (compare(Dialect.PREFIX, subject="run/"), True),
        (compare(Dialect.PREFIX, subject="un/"), False),
        (compare(Dialect.SUFFIX, type=".finalised", subject="/7"), True),
        (compare(Dialect.SUFFIX, type=".finalised", subject="/8"), False),
        (combine(Dialect.ALL, TRUE, TRUE), True),
        (combine(Dialect.ALL, TRUE, FALSE), False),
        (combine(Dialect.ANY, FALSE, TRUE), True),
        (combine(Dialect.ANY, FALSE, FALSE), False),
        (combine(Dialect.NOT, TRUE), False),
        (combine(Dialect.NOT, FALSE), True),
        (combine(Dialect.NOT, compare(Dialect.PREFIX, dataref="x")), True),
    ],
)
def test_the_truth_table_of_the_dialects(expression: Expression, *, expected: bool) -> None:
    assert holds(expression, RUN) is expected


EXPRESSIONS = st.recursive(
    st.sampled_from([TRUE, FALSE]),
    lambda inner: (
        st.builds(combine, st.sampled_from([Dialect.ALL, Dialect.ANY]), inner, inner)
        | st.builds(combine, st.just(Dialect.NOT), inner)
    ),
    max_leaves=12,
)


@given(EXPRESSIONS, EXPRESSIONS)
def test_not_any_is_all_not(one: Expression, other: Expression) -> None:
    negated = [combine(Dialect.NOT, part) for part in (one, other)]
    neither = combine(Dialect.NOT, combine(Dialect.ANY, one, other))
    assert holds(neither, RUN) is all_hold(negated, RUN)


@pytest.mark.case("W05")
def test_five_levels_and_fifty_expressions_are_allowed_and_no_more() -> None:
    def faults(*expressions: Expression) -> int:
        spec = WebhookEndpoint(url="https://a.example.com/", filter=Filter(dialects=expressions))
        return len(endpoint_faults(spec))

    assert faults(nested(5)) == 0
    assert faults(nested(6)) == 1
    assert faults(combine(Dialect.ANY, *[TRUE] * 49)) == 0
    assert faults(combine(Dialect.ANY, *[TRUE] * 49), TRUE) == 1
