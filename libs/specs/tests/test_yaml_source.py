"""YAML to nodes: hostile documents end at their limit, honest ones preserve their text."""

import re
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_specs.nodes import (
    Document,
    Form,
    ListNode,
    MapNode,
    Mark,
    Node,
    Scalar,
    form_name,
    form_of,
)
from datarecs_specs.yaml_source import MAX_BYTES, read_yaml


def only(text: str | bytes) -> Document:
    (document,) = read_yaml(text if isinstance(text, bytes) else text.encode())
    return document


def faults_of(text: str | bytes) -> list[tuple[str, Mark]]:
    data = text if isinstance(text, bytes) else text.encode()
    return [(fault.code.docs_id, fault.mark) for one in read_yaml(data) for fault in one.faults]


def node(text: str) -> Node:
    document = only(text)
    assert document.faults == ()
    assert document.node is not None
    return document.node


def value(text: str, key: str) -> Node:
    root = node(text)
    assert isinstance(root, MapNode)
    result = root.get(key)
    assert result is not None
    return result


def test_nesting_hidden_behind_quotes_costs_no_more_than_a_line() -> None:
    """Brackets inside quotes balance the count of the scan; the reader's limit ends it."""
    started = perf_counter()
    assert [code for code, _ in faults_of('["]",' * 40_000)] == ["DR1003"]
    assert perf_counter() - started < 1


BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
)


@pytest.mark.case("P66")
@pytest.mark.case("X23")
@pytest.mark.parametrize(
    "text",
    [
        "[" * 6_000,
        "[" * 100_000,
        "{a: " * 5_000,
        "[a, " * 5_000,
        "a:\n  b: " + "[" * 3_000,
        "- " * 5_000,
        "? " * 5_000,
    ],
)
def test_endless_nesting_is_refused_in_a_tenth_of_a_second(text: str) -> None:
    started = perf_counter()
    codes = [code for code, _ in faults_of(text)]
    assert codes == ["DR1003"]
    assert perf_counter() - started < 1


@pytest.mark.case("X24")
@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "a: &a x\nb: [" + ", ".join(["*a"] * 101) + "]",
        "a: &a {<<: *a}",
        "a: &a [*a]",
        "a: &a [x]\n" + "\n".join(f"b{n}: *a" for n in range(101)),
    ],
)
def test_an_alias_bomb_is_refused_by_its_count(text: str) -> None:
    started = perf_counter()
    assert [code for code, _ in faults_of(text)] == ["DR1003"]
    assert perf_counter() - started < 1


def test_a_hundred_aliases_are_fine() -> None:
    assert faults_of("a: &a x\nb: [" + ", ".join(["*a"] * 100) + "]") == []


@pytest.mark.case("X25")
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\nb: !!python/object:os.system {}", ("DR1003", Mark(2, 4))),
        ("a: !!binary aGk=", ("DR1003", Mark(1, 4))),
        ("a: ! x", ("DR1003", Mark(1, 4))),
        ("a: !own [x]", ("DR1003", Mark(1, 4))),
        ("a: 1\nb: 2\na: 3", ("DR1002", Mark(3, 1))),
        ('"a": 1\na: 3', ("DR1002", Mark(2, 1))),
        ("a:\n\t- b", ("DR1001", Mark(2, 1))),
        ("a: b: c", ("DR1001", Mark(1, 5))),
        ("a: *nobody", ("DR1001", Mark(1, 4))),
        ("a: [1, 2", ("DR1001", Mark(1, 4))),
        ("x: \x00", ("DR1001", Mark(1, 4))),
    ],
)
def test_what_a_declaration_may_not_hold_is_reported_with_its_place(
    text: str, fault: tuple[str, Mark]
) -> None:
    assert faults_of(text) == [fault]


@pytest.mark.parametrize(
    ("text", "mark", "message", "hint"),
    [
        (
            "a:\n  b: 1\n c: 2",
            Mark(3, 2),
            "indented differently",
            "keys of a mapping in one column",
        ),
        ("- a: 1\n  b: 2\n   c: 3", Mark(3, 5), "a key below a value", "in one column"),
        ("x:\n  - a: 1\n   b: 2", Mark(3, 4), "indented differently", "in one column"),
        ("a: 1\nb: {c: 1\n", Mark(2, 4), "the `{` is not closed", "the missing `}`"),
        ("a: [1,\n  2\n", Mark(1, 4), "the `[` is not closed", "the missing `]`"),
        ("a: {b: 1,\nc: 2\nd: 3", Mark(3, 2), "`,` or `}` is missing", "with `{` in line 1"),
        ("a: [1\nb: 2", Mark(2, 2), "`,` or `]` is missing", "with `[` in line 1"),
        ("a: }", Mark(1, 4), "a `}` without a `{`", "put the value in quotes"),
        ("? a\n: b\n]", Mark(3, 1), "a `]` without a `[`", "remove it"),
        ("- a\nb: 1", Mark(2, 1), "items of the list that begins in line 1", "with `- `"),
        ("a: 1\n- b", Mark(2, 1), "keys of the mapping that begins in line 1", "below the key"),
        ("a: 'x' y", Mark(1, 8), "after the end of a value", "put the value in quotes"),
        ("a: b: c", Mark(1, 5), "a second `: ` in one line", "put the value in quotes"),
        ("- a:1\n  b: 2", Mark(2, 4), "a key below a value", "a blank after the colon"),
        ("a: 1\nkind:csv\nb: 2", Mark(2, 1), "without `key: value`", "a blank after the colon"),
        ("a: 1\nkind\nb: 2", Mark(2, 1), "without `key: value`", "write `key: value`"),
        ("a: 'x\nb: 1\n", Mark(1, 4), "the quote is not closed", "the missing quote"),
        ("a: @x", Mark(1, 4), "no value begins with", "put the value in quotes"),
        ("a:\n\t- b", Mark(2, 1), "a tab", "indent with spaces"),
        ("cron: */5 * * * *", Mark(1, 7), "begins with `*`", "put the value in quotes"),
        ("a: *", Mark(1, 5), "begins with `*`", "put the value in quotes"),
        ('a: "\\d"', Mark(1, 6), "unknown escape", "single quotes"),
        ("a: - b", Mark(1, 4), "an item of a list behind a key", "in the next line"),
        ("a: |x\n  y", Mark(1, 5), "expected chomping", ""),
    ],
)
def test_a_fault_of_syntax_names_its_line_and_what_to_write(
    text: str, mark: Mark, message: str, hint: str
) -> None:
    faults = [fault for one in read_yaml(text.encode()) for fault in one.faults]
    (fault,) = faults
    assert (fault.mark, message in fault.message, hint in fault.hint) == (mark, True, True)


@given(text=st.text(alphabet="ab:-{}[]'\"*&|>?#@,\\ \t\n\x85", max_size=30))
def test_a_fault_of_syntax_is_within_the_text(text: str) -> None:
    lines = len(re.split("\n|\x85", text))
    for document in read_yaml(text.encode()):
        for fault in document.faults:
            assert 1 <= fault.mark.line <= lines


@pytest.mark.case("X31")
@pytest.mark.parametrize(
    "data",
    [
        "a: 1".encode("utf-16"),
        b"\xef\xbb\xbfa: 1",
        b"\xff\xfea",
        b"a: \xc3\x28",
    ],
)
def test_only_utf_8_without_a_byte_order_mark_is_text(data: bytes) -> None:
    assert [code for code, _ in faults_of(data)] == ["DR1001"]


def test_the_place_of_a_bad_byte_is_reported() -> None:
    assert faults_of(b"a: 1\nb: x\xff") == [("DR1001", Mark(2, 5))]


def test_a_file_ends_at_256_kib() -> None:
    comment = b"#" * (MAX_BYTES - 5)
    assert faults_of(b"a: 1\n" + comment) == []
    assert [code for code, _ in faults_of(b"a: 1\n" + comment + b"#")] == ["DR1003"]


def test_a_document_ends_at_10_000_values() -> None:
    assert faults_of("\n".join(["-"] * 9_999)) == []
    assert [code for code, _ in faults_of("\n".join(["-"] * 10_000))] == ["DR1003"]


def test_a_file_ends_at_100_documents() -> None:
    assert faults_of("--- a\n" * 100) == []
    assert [code for code, _ in faults_of("--- a\n" * 101)] == ["DR1003"]


def test_a_star_without_quotes_is_explained() -> None:
    (document,) = read_yaml(b"spec:\n  cron: * * * * *\n")
    (fault,) = document.faults
    assert (fault.code.docs_id, fault.mark) == ("DR1001", Mark(2, 10))
    assert fault.hint == "put the value in quotes"


def test_documents_before_a_syntax_fault_are_read() -> None:
    documents = read_yaml(b"a: 1\n---\nb: 2\n---\nc: [")
    assert [(one.number, one.node is not None, len(one.faults)) for one in documents] == [
        (0, True, 0),
        (1, True, 0),
        (2, False, 1),
    ]


@pytest.mark.parametrize("text", ["", "# nothing", "---\n"])
def test_an_empty_text_is_one_empty_document(text: str) -> None:
    document = only(text)
    assert document.faults == ()
    assert document.node is None or form_name(document.node) == "an empty value"


@pytest.mark.case("U18")
@pytest.mark.parametrize(
    ("plain", "form"),
    [
        ("no", Form.TEXT),
        ("on", Form.TEXT),
        ("12:30:45", Form.TEXT),
        ("2026-01-01", Form.TEXT),
        ("012", Form.INT),
        ("0x1F", Form.INT),
        ("1e3", Form.FLOAT),
        ("0.10", Form.FLOAT),
        (".inf", Form.FLOAT),
        ("true", Form.BOOL),
        ("~", Form.NULL),
        ("null", Form.NULL),
        ("", Form.NULL),
    ],
)
def test_a_bare_scalar_is_read_as_in_yaml_1_2(plain: str, form: Form) -> None:
    assert form_of(plain) is form


@pytest.mark.case("U18")
@pytest.mark.parametrize("plain", ["no", "012", "1e3", "12:30:45", "0.10", "1.000000000000000001"])
def test_a_scalar_preserves_its_source_text(plain: str) -> None:
    scalar = value(f"a: {plain}", "a")
    assert isinstance(scalar, Scalar)
    assert scalar.text == plain


def test_a_version_directive_changes_nothing() -> None:
    scalar = value("%YAML 1.1\n---\na: no", "a")
    assert isinstance(scalar, Scalar)
    assert scalar.form is Form.TEXT


def test_a_quoted_number_is_text() -> None:
    scalar = value('a: "1"', "a")
    assert isinstance(scalar, Scalar)
    assert (scalar.form, scalar.bare) == (Form.TEXT, False)


def test_marks_point_at_keys_and_values() -> None:
    root = node("a: 1\nb:\n  - x\n  - {c: y}")
    assert isinstance(root, MapNode)
    entry = root.entries[1]
    assert (entry.key_mark, entry.value.mark) == (Mark(2, 1), Mark(3, 3))
    assert isinstance(entry.value, ListNode)
    assert [item.mark for item in entry.value.items] == [Mark(3, 5), Mark(4, 5)]


def test_a_merge_key_adds_missing_keys() -> None:
    merged = value("base: &b {x: 1, y: 2}\nother: &o {z: 3}\nd: {<<: [*b, *o], y: 9}", "d")
    assert isinstance(merged, MapNode)
    assert {entry.key: getattr(entry.value, "text", "") for entry in merged.entries} == {
        "y": "9",
        "x": "1",
        "z": "3",
    }


@pytest.mark.parametrize("text", ["a: {<<: x}", "a: {<<: [x]}", "? [a]\n: b", "{a: 1}: b"])
def test_a_key_or_merge_of_another_form_is_reported(text: str) -> None:
    assert [code for code, _ in faults_of(text)] == ["DR1011"]


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return
    assert len(read_yaml(data)) >= 1


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    assert len(read_yaml(data)) >= 1
