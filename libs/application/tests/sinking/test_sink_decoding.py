"""Strict JSON: what is read exactly, and what is refused."""

import time
from decimal import Decimal

import pytest

from datarecs_application.sinking.decoding import (
    MOST_BYTES,
    MOST_LEVELS,
    RecordTooLargeError,
    decode_json,
)
from datarecs_core.errors.sink import BadRecordError, SinkCode


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', 1),
        ('  {"a": 9007199254740993}\n', 9007199254740993),
        ('{"a": 0.10}', Decimal("0.10")),
        ('{"a": 1e3}', Decimal("1e3")),
        ('{"a": "\\ud83d\\ude00"}', "😀"),
        ('{"a": [{"b": null}, true]}', [{"b": None}, True]),
    ],
)
def test_values_are_read_digit_for_digit(text: str, value: object) -> None:
    assert decode_json(text.encode()) == {"a": value}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "the value is not JSON at character 0"),
        (b'{"a": 1', "the value is not JSON at character 7"),
        (b"[1]", "the value is not a JSON object"),
        (b'"text"', "the value is not a JSON object"),
        (b'{"a": 1, "a": 2}', "a name occurs twice in an object"),
        (b'{"a": {"b": 1, "b": 1}}', "a name occurs twice in an object"),
        (b'{"a": NaN}', "NaN is no number of JSON"),
        (b'{"a": -Infinity}', "-Infinity is no number of JSON"),
        (b'{"a": 1} {"b": 2}', "text after the value at character 8"),
        (b'{"a": "\xff"}', "the value is not Unicode text"),
        (b'{"a": "\\ud83d"}', "the value is not Unicode text"),
        (b"\xef\xbb\xbf{}", "the value is not JSON at character 0"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "a number has too many digits"),
        (b'{"a": 1e99999999999999999999}', "a number has too many digits"),
        (b'{"a": 01}', "the value is not JSON at character 7"),
    ],
)
def test_what_two_readers_could_read_differently_is_refused(value: bytes, reason: str) -> None:
    with pytest.raises(BadRecordError) as caught:
        decode_json(value)
    assert caught.value.reason == reason
    assert caught.value.code is SinkCode.BAD_RECORD


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_levels_are_limited(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    lists = MOST_LEVELS - 1
    text = '{"a":' + opening * lists + "1" + closing * lists + "}"
    assert decode_json(text.encode())
    deeper = '{"a":' + opening * (lists + 1) + "1" + closing * (lists + 1) + "}"
    with pytest.raises(BadRecordError, match="more than 64 levels"):
        decode_json(deeper.encode())


def test_brackets_in_texts_are_no_levels() -> None:
    text = '{"a": "' + '{[\\"' * 100 + '", "b": [' + ", ".join(["[]"] * 100) + "]}"
    assert len(decode_json(text.encode())) == 2


@pytest.mark.case("I59")
def test_a_value_above_16_mib_is_refused_unread() -> None:
    with pytest.raises(RecordTooLargeError) as caught:
        decode_json(b"x" * (MOST_BYTES + 1))
    assert caught.value.code is SinkCode.RECORD_TOO_LARGE


def test_a_hostile_value_takes_linear_time() -> None:
    begun = time.monotonic()
    for value in (b"[" * MOST_BYTES, b'{"' + b'\\"' * (MOST_BYTES // 2 - 1), b'"[' * 8_000_000):
        with pytest.raises(BadRecordError):
            decode_json(value)
    assert time.monotonic() - begun < 20
