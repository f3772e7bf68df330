"""Which acceptance ids of `cases.toml` have a test, which are open, and which wait for a surface.

`--release` makes an open id an error: a release needs none.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("tests/**/*.py", "*/*/tests/**/*.py", "libs/testing/src/**/*.py")
RANGE = re.compile(r"^([A-Z]+-?)(\d+)\.\.(\d+)$")


def expand(entry: str) -> Iterator[str]:
    """`L01..09` is L01 to L09, both included; digits have a fixed width."""
    match = RANGE.match(entry)
    if match is None:
        yield entry
        return
    prefix, first, last = match.groups()
    for number in range(int(first), int(last) + 1):
        yield f"{prefix}{number:0{len(first)}d}"


def marked(root: Path) -> set[str]:
    """Every id in a `pytest.mark.case` of a test or of a conformance suite."""
    names = set()
    for path in (path for pattern in PLACES for path in root.glob(pattern)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.case"):
                names |= {str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)}
    return names


def wanted(root: Path) -> Mapping[str, list[str]]:
    """Area to ids, in the order of the file."""
    return _ids(areas for areas in _lists(root).items() if areas[0] != "waiting")


def waiting(root: Path) -> Mapping[str, list[str]]:
    """Surface that this release does not have to the ids that wait for it."""
    return _ids(_lists(root).get("waiting", {}).items())


def _lists(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "tests/cases.toml").read_text(encoding="utf-8"))


def _ids(lists: Iterable[tuple[str, Sequence[str]]]) -> Mapping[str, list[str]]:
    return {name: [one for entry in some for one in expand(entry)] for name, some in lists}


def main(arguments: Sequence[str] | None = None, *, root: Path = ROOT) -> int:
    """Print the open ids by area; 1 for a release with an open id."""
    parser = argparse.ArgumentParser(prog="python tests/cases.py", description=__doc__)
    parser.add_argument("--release", action="store_true", help="fail while an id is open")
    release = parser.parse_args(arguments).release
    areas, have = wanted(root), marked(root)
    open_ids = {area: [one for one in ids if one not in have] for area, ids in areas.items()}
    for area, ids in areas.items():
        missing = open_ids[area]
        state = f"open: {' '.join(missing)}" if missing else "all have a test"
        sys.stdout.write(f"{area:<10} {len(ids) - len(missing):>3} of {len(ids):>3}  {state}\n")
    for surface, ids in waiting(root).items():
        sys.stdout.write(f"waiting for {surface}: {' '.join(ids)}\n")
    further = have - {one for ids in areas.values() for one in ids}
    sys.stdout.write(f"beyond these, tests carry {len(further)} further ids\n")
    sys.stdout.write("what each id asks for: docs/spec/cases.md\n")
    return int(release and any(open_ids.values()))


if __name__ == "__main__":
    raise SystemExit(main())
