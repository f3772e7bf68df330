"""Each promise of SECURITY.md names cases that have a test."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROMISE = re.compile(r"^\| .+ \| ([^|]*X\d+[^|]*) \|$", re.MULTILINE)
RANGE = re.compile(r"X(\d+)(?: to X(\d+))?")


def marked_cases() -> set[str]:
    spec = spec_from_file_location("cases", ROOT / "tests/cases.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    marked: set[str] = module.marked(ROOT)
    return marked


def promised_cases(text: str) -> set[str]:
    return {
        f"X{number:02d}"
        for cell in PROMISE.findall(text)
        for first, last in RANGE.findall(cell)
        for number in range(int(first), int(last or first) + 1)
    }


def test_every_case_that_a_promise_names_has_a_test() -> None:
    promised = promised_cases((ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert {"X01", "X08", "X57"} <= promised
    assert not promised - marked_cases()
