import io
import json

import pytest

from datarecs_cli.stack.log_lines import JsonLines, message_of


def test_each_line_is_a_record_and_says_what_was_said() -> None:
    log = io.StringIO()
    stream = JsonLines(log)
    print("  ✓ PostgreSQL 18", file=stream)
    stream.write("first\nsec")
    print("ond\n", file=stream)
    lines = log.getvalue().splitlines()
    assert [message_of(line) for line in lines] == ["  ✓ PostgreSQL 18", "first", "second"]
    assert {json.loads(line)["service"] for line in lines} == {"supervisor"}


@pytest.mark.case("X64")
def test_a_secret_in_what_is_said_is_masked() -> None:
    log = io.StringIO()
    print("cannot reach postgresql://stack:canary@127.0.0.1/x", file=JsonLines(log))
    assert "canary" not in log.getvalue()


@pytest.mark.parametrize("line", ["plain text", "[1]", '{"event": "x"}'])
def test_a_line_of_another_form_says_itself(line: str) -> None:
    assert message_of(line) == line
