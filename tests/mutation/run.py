"""Mutation testing of what decides a verdict: every small change of those modules must be noticed.

`make mutants` writes `docs/mutation.md`. mutmut changes a copy of a library, one place at a
time, and
runs the unit tests that reach it. A change that no test notices needs its reason in
`equivalent.toml`; one without a reason, or a reason without its change, ends with exit code 1.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.copies import ROOT, SUITES, Suite, copy_library
from tests.mutation.outcomes import Mutant, Status, outcomes
from tests.mutation.report import judged, page

PAGE = ROOT / "docs/mutation.md"
MUTMUT = Path(sys.executable).parent / "mutmut"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.run", description=__doc__)
    parser.add_argument("modules", nargs="*", help="of comparison; all that are listed by default")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keep the copy here")
    parser.add_argument(
        "--again", action="store_true", help="of a kept folder, only what is new or survived"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="datarecs-mutants-") as name:
        folder = asked.folder or Path(name)
        found = []
        for suite in SUITES:
            modules = [each for each in suite.modules if each in asked.modules]
            if modules or not asked.modules:
                found += tried(folder / suite.name, suite, modules, asked)
    return told(found, whole=not asked.modules)


def tried(
    folder: Path, suite: Suite, modules: Sequence[str], asked: argparse.Namespace
) -> list[Mutant]:
    """Run one suite, or these modules of it."""
    again = [each.name for each in unkilled(folder, suite)] if asked.again else []
    folder.mkdir(parents=True, exist_ok=True)
    copy_library(folder, suite)
    mutated(folder, [f"{suite.qualified(name)}.*" for name in modules], asked.processes)
    if again:
        mutated(folder, again, asked.processes)
    return outcomes(folder, suite)


def unkilled(folder: Path, suite: Suite) -> list[Mutant]:
    """Endless ones, too: the machine may have been busy."""
    asked = (Status.SURVIVED, Status.ENDLESS)
    return [each for each in outcomes(folder, suite) if each.status in asked]


def mutated(folder: Path, named: Sequence[str], processes: int) -> None:
    """Let mutmut run; what it finds stands in the folder."""
    command = [str(MUTMUT), "run", "--max-children", str(processes), *named]
    subprocess.run(command, cwd=folder, check=True)


def told(found: Sequence[Mutant], *, whole: bool) -> int:
    """Print what has no reason; when all was asked and nothing is open, write the page."""
    judgement = judged(found)
    sys.stdout.write(judgement.text)
    if not judgement.explained:
        return 1
    if whole:
        PAGE.write_text(page(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
