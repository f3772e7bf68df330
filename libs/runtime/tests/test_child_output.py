import os
from threading import Thread

import pytest
from structlog.testing import capture_logs

from datarecs_runtime.child_output import MAX_PIECE_BYTES, log_output

TRACEBACK = """Traceback (most recent call last):
  File "x.py", line 1, in <module>
ValueError: broken
"""


def logged(*pieces: bytes) -> list[str]:
    """The messages of the log after a child printed the pieces and ended."""
    reading, writing = os.pipe()
    with capture_logs() as lines, os.fdopen(reading, "rb") as pipe:
        listening = Thread(target=log_output, args=(pipe,))
        listening.start()
        for piece in pieces:
            os.write(writing, piece)
        os.close(writing)
        listening.join(10)
    assert {line["event"] for line in lines} <= {"child_output"}
    return [str(line["message"]) for line in lines]


def test_a_traceback_is_one_record() -> None:
    assert logged(TRACEBACK.encode()) == [TRACEBACK.rstrip()]


def test_lines_of_one_moment_are_one_record_also_when_written_apart() -> None:
    assert logged(*(line.encode() + b"\n" for line in TRACEBACK.splitlines())) == [
        TRACEBACK.rstrip()
    ]


def test_an_object_of_json_stays_a_separate_record() -> None:
    assert logged(b'noise\n{"event":"x"}\nmore\n') == ["noise", '{"event":"x"}', "more"]


@pytest.mark.parametrize("printed", [b"", b"\n", b" \n\n"])
def test_blank_output_is_no_record(printed: bytes) -> None:
    assert logged(printed) == []


def test_bytes_that_are_no_text_are_shown_all_the_same() -> None:
    assert logged(b"a\xff\x00b\n") == ["a\ufffd\x00b"]


def test_a_flood_is_cut_into_records() -> None:
    pieces = logged(*[b"x" * 4096] * (MAX_PIECE_BYTES // 4096 + 1))
    assert sum(map(len, pieces)) == MAX_PIECE_BYTES + 4096
    assert max(map(len, pieces)) <= MAX_PIECE_BYTES
