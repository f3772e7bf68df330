"""JSON in and out: strict, exact, verbatim."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_events.json_text import (
    MAX_DEPTH,
    JsonFaultError,
    member_spans,
    parse_object,
    write,
)

PLAIN = st.recursive(
    st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), PLAIN)


@given(OBJECTS)
def test_what_is_written_is_read_again(value: dict[str, object]) -> None:
    assert parse_object(write(value).encode()) == value


@given(OBJECTS, st.sampled_from([None, 0, 2]))
def test_every_member_is_read_verbatim(value: dict[str, object], indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    spans = member_spans(text.encode())
    assert list(spans) == list(value)
    for name, span in spans.items():
        assert span in text
        assert json.loads(span) == value[name]


def test_numbers_preserve_their_digits() -> None:
    members = parse_object(b'{"a":0.10,"b":1e2,"c":9007199254740993,"d":1E-18}')
    assert [str(value) for value in members.values()] == [
        "0.10",
        "1E+2",
        "9007199254740993",
        "1E-18",
    ]
    assert write(members) == '{"a":0.10,"b":100,"c":9007199254740993,"d":0.000000000000000001}'


def test_depth_is_counted_up_to_its_limit() -> None:
    fits = b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH
    assert parse_object(fits)
    with pytest.raises(JsonFaultError, match="nests deeper"):
        parse_object(b'{"a":' + fits + b"}")
    wide = json.dumps({str(number): [] for number in range(100)}).encode()
    assert len(parse_object(wide)) == 100


def test_quotes_that_never_end_cost_no_more_than_their_length() -> None:
    with pytest.raises(JsonFaultError, match="Unterminated string"):
        parse_object(b'{"a":"' + b'\\"' * 250_000)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{'a':1}", "at character 1"),
        (b'{"a":1e999999999999999999999}', "too long"),
        (b'{"a":"\\udc00"}', "surrogate"),
        (b'{"a":["\\ud83d"]}', "surrogate"),
        (b'{"\\ud83d":1}', "surrogate"),
    ],
)
def test_a_fault_says_what_and_never_the_value(data: bytes, words: str) -> None:
    with pytest.raises(JsonFaultError, match=words):
        parse_object(data)


def test_a_whole_pair_of_surrogates_is_a_letter() -> None:
    assert parse_object(b'{"a":"\\ud83d\\ude00"}') == {"a": "\U0001f600"}


@pytest.mark.parametrize("value", [1.5, object(), {1, 2}, Decimal])
def test_only_plain_values_are_written(value: object) -> None:
    with pytest.raises(TypeError):
        write(value)
