"""Tables that records name."""

import pytest

from datarecs_core.errors.sink import BadRecordError
from datarecs_core.sink.definition import DynamicTables
from datarecs_core.sink.dynamic import NamedTables, named_table, topic_tables

SALES = DynamicTables(catalog="lake", namespace=("sales",), path="meta.table")
ANY = DynamicTables(catalog="lake", path="meta.table")


def naming(text: object) -> dict[str, object]:
    return {"meta": {"table": text}}


@pytest.mark.case("I39")
@pytest.mark.parametrize(
    ("rule", "text", "table"),
    [
        (SALES, "orders", "sales.orders"),
        (SALES, "Orders", "sales.orders"),
        (SALES, "sales.orders", "sales.orders"),
        (SALES, "a-1_b", "sales.a-1_b"),
        (ANY, "Sales.EU.Orders", "sales.eu.orders"),
        (DynamicTables(catalog="lake", path="a", lower_case=False), "S.Orders", "S.Orders"),
    ],
)
def test_a_name_is_a_table_of_its_namespace(rule: DynamicTables, text: str, table: str) -> None:
    target = named_table(rule, text)
    assert (str(target), target.catalog) == (table, "lake")


@pytest.mark.case("I39")
@pytest.mark.parametrize(
    ("rule", "text", "reason"),
    [
        (SALES, "..", "letters"),
        (SALES, "../orders", "letters"),
        (SALES, "sales..orders", "letters"),
        (SALES, "", "letters"),
        (SALES, "a/b", "letters"),
        (SALES, "a b", "letters"),
        (SALES, "orders\n", "letters"),
        (SALES, "-orders", "letters"),
        (SALES, "é", "letters"),
        (SALES, '"a"', "letters"),
        (SALES, "hr.orders", "outside of the namespace sales"),
        (SALES, "sales.eu.orders", "outside"),
        (SALES, "x" * 300, "255"),
        (SALES, "x" * 250, "255"),
        (ANY, "orders", "needs its namespace"),
    ],
)
def test_any_other_name_is_a_bad_record(rule: DynamicTables, text: str, reason: str) -> None:
    with pytest.raises(BadRecordError, match=reason) as refused:
        named_table(rule, text)
    assert refused.value.path == "meta.table"


@pytest.mark.parametrize("value", [{}, {"meta": None}, naming(None), naming(["a"]), naming({})])
def test_a_record_without_a_name_is_bad(value: dict[str, object]) -> None:
    with pytest.raises(BadRecordError, match="no text"):
        NamedTables(SALES).number("topic", value)


def test_a_table_has_one_number_however_it_is_written() -> None:
    named = NamedTables(SALES)
    numbers = [named.number("t", naming(text)) for text in ("a", "A", "sales.a", "b", "a")]
    assert numbers == [0, 0, 0, 1, 0]
    assert [str(named.targets[number]) for number in (0, 1)] == ["sales.a", "sales.b"]


def test_a_topic_names_its_table() -> None:
    named = NamedTables(DynamicTables(catalog="lake", namespace=("sales",)))
    assert str(named.targets[named.number("Orders", {"any": 1})]) == "sales.orders"


@pytest.mark.case("I39")
def test_the_201st_table_is_a_bad_record() -> None:
    named = NamedTables(SALES)
    for number in range(200):
        assert named.number("t", naming(f"t{number}")) == number
    with pytest.raises(BadRecordError, match="more than 200 tables"):
        named.number("t", naming("one_more"))
    assert named.number("t", naming("t7")) == 7


@pytest.mark.case("I40")
def test_a_missing_table_takes_no_place_and_is_searched_again() -> None:
    named = NamedTables(DynamicTables(catalog="lake", namespace=("s",), path="t", max_tables=1))
    first = named.number("", {"t": "gone"})
    assert named.missing(first, "it is missing").at == 0
    with pytest.raises(BadRecordError, match="it is missing"):
        named.number("", {"t": "gone"})
    second = named.number("", {"t": "there"})
    named.recheck()
    assert first not in named.targets
    assert named.number("", {"t": "there"}) == second
    with pytest.raises(BadRecordError, match="more than 1 table"):
        named.number("", {"t": "gone"})


def test_names_without_a_table_do_not_fill_the_memory() -> None:
    named = NamedTables(SALES)
    for number in range(25_000):
        named.missing(named.number("t", naming(f"t{number}")), "it is missing")
    assert len(named.targets) <= 10_001


def test_topics_name_their_tables_before_a_record_comes() -> None:
    rule = DynamicTables(catalog="lake", namespace=("sales",))
    assert [str(one) for one in topic_tables(rule, ("Orders", "a.b", "c"))] == [
        "sales.orders",
        "sales.c",
    ]
    assert list(topic_tables(SALES, ("orders",))) == []
