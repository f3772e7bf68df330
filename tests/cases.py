"""Which acceptance ids of `cases.toml` have a test, and which are open."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RANGE = re.compile(r"^([A-Z]+-?)(\d+)\.\.(\d+)$")


def expand(entry: str) -> Iterator[str]:
    """`L01..09` is L01 to L09, both included; digits keep their width."""
    match = RANGE.match(entry)
    if match is None:
        yield entry
        return
    prefix, first, last = match.groups()
    for number in range(int(first), int(last) + 1):
        yield f"{prefix}{number:0{len(first)}d}"


def marked() -> set[str]:
    """Every id that stands in a `pytest.mark.case` of a test or of a conformance suite."""
    found = set()
    patterns = ("tests/**/*.py", "*/*/tests/**/*.py", "libs/testing/src/**/*.py")
    for path in (path for pattern in patterns for path in ROOT.glob(pattern)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.case"):
                found |= {str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)}
    return found


def main() -> int:
    """Print the open ids by area; exit 0, since a list is not a check."""
    areas = tomllib.loads((ROOT / "tests/cases.toml").read_text(encoding="utf-8"))
    have = marked()
    wanted = {
        area: [i for entry in entries for i in expand(entry)] for area, entries in areas.items()
    }
    for area, ids in wanted.items():
        missing = [identifier for identifier in ids if identifier not in have]
        state = f"open: {' '.join(missing)}" if missing else "all have a test"
        sys.stdout.write(f"{area:<10} {len(ids) - len(missing):>3} of {len(ids):>3}  {state}\n")
    extra = have - {identifier for ids in wanted.values() for identifier in ids}
    sys.stdout.write(f"beyond these, tests carry {len(extra)} further ids\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
