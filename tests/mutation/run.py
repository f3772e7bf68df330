"""Mutation testing of what decides a verdict: every small change of those modules must be noticed.

`make mutants` writes `docs/mutation.md`. mutmut changes a copy of a library, one place at a time,
and runs the unit tests that reach it. A change that no test notices needs its reason in
`equivalent.toml`; one without a reason, or a reason without its change, ends with exit code 1. A
suite has its part of the page written when every module of it has its answers.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from datarecs_testing.figures import replace_part
from tests.mutation.copies import ROOT, SUITES, Suite, copy_library
from tests.mutation.outcomes import Mutant, Status, outcomes
from tests.mutation.report import judged, part

PAGE = ROOT / "docs/mutation.md"
MUTMUT = Path(sys.executable).parent / "mutmut"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.run", description=__doc__)
    parser.add_argument("modules", nargs="*", help="such as kernel.judging; all by default")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keep the copy here")
    parser.add_argument(
        "--again", action="store_true", help="of a kept folder, only what is new or survived"
    )
    parser.add_argument(
        "--report", action="store_true", help="of a kept folder, what is known, without a run"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="datarecs-mutants-") as name:
        folder = options.folder or Path(name)
        results: dict[str, list[Mutant]] = {}
        for suite in SUITES:
            modules = [each for each in suite.modules if each in options.modules]
            if modules or not options.modules:
                results[suite.name] = tried(folder / suite.name, suite, modules, options)
    return report(results)


def tried(
    folder: Path, suite: Suite, modules: Sequence[str], options: argparse.Namespace
) -> list[Mutant]:
    """Run one suite, or these modules of it."""
    if options.report:
        return outcomes(folder, suite)
    again = [each.name for each in unkilled(folder, suite)] if options.again else []
    folder.mkdir(parents=True, exist_ok=True)
    copy_library(folder, suite)
    mutated(folder, [f"{suite.qualified(name)}.*" for name in modules], options.processes)
    if again:
        mutated(folder, again, options.processes)
    return outcomes(folder, suite)


def unkilled(folder: Path, suite: Suite) -> list[Mutant]:
    """Endless ones, too: the machine may have been busy."""
    wanted = (Status.SURVIVED, Status.ENDLESS)
    return [each for each in outcomes(folder, suite) if each.status in wanted]


def mutated(folder: Path, named: Sequence[str], processes: int) -> None:
    """Run mutmut; its results are in the folder."""
    command = [str(MUTMUT), "run", "--max-children", str(processes), *named]
    subprocess.run(command, cwd=folder, check=True)


def report(results: Mapping[str, Sequence[Mutant]]) -> int:
    """Print what has no reason; of every suite that has nothing open, write the part."""
    judgement = judged([mutant for mutants in results.values() for mutant in mutants])
    sys.stdout.write(judgement.text)
    for suite in SUITES:
        mutants = results.get(suite.name, [])
        if mutants and is_whole(mutants) and judged(mutants).explained:
            replace_part(PAGE, part(suite, mutants))
    return 0 if judgement.explained else 1


def is_whole(mutants: Sequence[Mutant]) -> bool:
    """Whether every change of the suite has its answer."""
    return all(mutant.status is not Status.UNKNOWN for mutant in mutants)


if __name__ == "__main__":
    raise SystemExit(main())
