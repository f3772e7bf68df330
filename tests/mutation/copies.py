"""The copy of a library that mutmut changes, in its required layout, with the tests.

mutmut leaves decorated functions alone, so in the copy a property is a function that becomes a
property below it, and nothing is cached, since an answer stored from an unchanged run would hide a
change. The type named in a `cast` is left out: it has no meaning when the program runs. Lines keep
their numbers.
"""

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from shutil import copytree, ignore_patterns, rmtree

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Modules of one library and the unit tests that judge them, run as one."""

    name: str
    title: str
    """Of its part of the page."""
    library: str
    """Folder of the member."""
    prefix: str
    """Of the names by which Python imports the modules."""
    modules: tuple[str, ...]
    """Room and name; no two suites share one."""
    tests: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """Names of tests that take too long to run for every change."""

    @property
    def root(self) -> Path:
        """Of the import package, in the library and in the copy."""
        return self.file(self.modules[0]).parents[-3]

    def file(self, module: str) -> Path:
        """Of a module, in the library and in the copy."""
        return Path("src") / f"{self.qualified(module).replace('.', '/')}.py"

    def qualified(self, module: str) -> str:
        """The name by which Python imports it."""
        return f"{self.prefix}{module}"


def _kernel_tests(*names: str) -> tuple[str, ...]:
    return tuple(f"libs/kernel/tests/test_{name}.py" for name in names)


_OF_JUDGING = (
    "agreeing",
    "counted_groups",
    "exact_amounts",
    "judge_by_oracle",
    "judging",
    "repeated",
    "whole_units",
)
SUITES = (
    Suite(
        name="values",
        title="Tolerances, the canonical form and its values, and verdicts",
        library="libs/core",
        prefix="datarecs_core.comparison.",
        modules=(
            "oracle.agreement",
            "oracle.aggregating",
            "values.canonical",
            "values.float32",
            "values.json_form",
            "values.normalizing",
            "values.preparing",
            "results.results",
            "planning.tolerance",
            "values.translating",
            "results.verdict",
        ),
        tests=("libs/core/tests/comparison",),
    ),
    Suite(
        name="kernel-groups",
        title="Groups of the kernel and the rows that meet in them",
        library="libs/kernel",
        prefix="datarecs_",
        modules=("kernel.judging", "kernel.repeated"),
        tests=_kernel_tests(*_OF_JUDGING),
    ),
    Suite(
        name="kernel-amounts",
        title="Amounts of the kernel and how they agree",
        library="libs/kernel",
        prefix="datarecs_",
        modules=("kernel.agreeing", "kernel.exact_amounts", "kernel.whole_units"),
        tests=_kernel_tests("agreeing", "exact_amounts", "judge_by_oracle", "whole_units"),
    ),
    Suite(
        name="kernel-sums",
        title="Exact sums, sums of hashes and repeated keys of the kernel",
        library="libs/kernel",
        prefix="datarecs_",
        modules=("kernel.exact_sums", "kernel.hash_sums", "kernel.repeated_keys"),
        tests=_kernel_tests("exact_sums", "hash_sums", "repeated_keys"),
    ),
    Suite(
        name="kernel-rows",
        title="Hashes of rows and tallies of the kernel",
        library="libs/kernel",
        prefix="datarecs_",
        modules=("kernel.row_hashes", "kernel.tallies"),
        tests=_kernel_tests("first_reading", "partials", "row_hashes", "tallies"),
        left_out=("test_every_answer_is_the_oracles_with_and_without_it",),
    ),
)
"""What decides tolerances, the canonical form and its values, verdicts, and the kernel's counts."""
_CONFTEST = """

hypothesis.settings.register_profile(
    "mutation",
    hypothesis.settings.get_profile("dev"),
    max_examples=20,
    derandomize=True,
    database=None,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)
hypothesis.settings.load_profile("mutation")
"""
"""The same examples for every change, so that what survives once survives always; none shrinks."""

EXAMPLES = 100
"""Most of one test."""
_PLAIN = ("use_git_change_detection = false", "timeout_multiplier = 8", "timeout_constant = 2.0")
"""Time limit by the clock, because the run has a low priority."""


def copy_library(folder: Path, suite: Suite) -> None:
    """A project that mutmut can run, in place of an earlier one."""
    rmtree(folder / "src", ignore_errors=True)
    ignored = ignore_patterns("__pycache__", ".hypothesis")
    copytree(ROOT / suite.library / suite.root, folder / suite.root, ignore=ignored)
    for name in suite.modules:
        module = folder / suite.file(name)
        module.write_text(plain(module.read_text(encoding="utf-8")), encoding="utf-8")
    for name in suite.tests:
        tests, copy = ROOT / name, folder / "tests" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if tests.is_dir():
            rmtree(copy, ignore_errors=True)
            copytree(tests, copy, ignore=ignored)
        else:
            copy.write_text(shortened(tests.read_text(encoding="utf-8")), encoding="utf-8")
    conftest = (ROOT / "conftest.py").read_text(encoding="utf-8")
    (folder / "conftest.py").write_text(conftest + _CONFTEST, encoding="utf-8")
    (folder / "pyproject.toml").write_text(_settings(suite), encoding="utf-8")


def shortened(text: str) -> str:
    """Tests with at most so many examples each: a thousand for every change would take hours."""
    return re.sub(
        r"max_examples=([\d_]+)", lambda each: f"max_examples={min(int(each[1]), EXAMPLES)}", text
    )


def _settings(suite: Suite) -> str:
    """Pytest as the workspace configures it, and what mutmut may change."""
    workspace = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    tool = re.search(r"(?ms)^\[tool\.pytest\.ini_options\]\n.*?(?=^\[)", workspace)
    if tool is None:
        raise RuntimeError("pyproject.toml no longer configures pytest")
    lists = {
        "source_paths": ["src"],
        "only_mutate": [str(suite.file(name)) for name in suite.modules],
        "also_copy": ["conftest.py"],
        "do_not_mutate_patterns": [r"assert_never\("],
        "pytest_add_cli_args": ["-p", "no:cacheprovider", *_selection(suite)],
        "pytest_add_cli_args_test_selection": [f"tests/{name}" for name in suite.tests],
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in lists.items()]
    return "\n".join((tool[0], "[tool.mutmut]", *lines, *_PLAIN, ""))


def _selection(suite: Suite) -> list[str]:
    return ["-k", f"not ({' or '.join(suite.left_out)})"] if suite.left_out else []


def plain(text: str) -> str:
    """A module without decorators on functions and without casts, line for line."""
    lines = text.splitlines(keepends=True)
    for function in _functions(ast.parse(text)):
        for decorator in function.decorator_list:
            name = ast.unparse(decorator)
            if name in {"property", "cache"}:
                lines[decorator.lineno - 1] = "\n"
            if name == "property":
                _insert_below(lines, function)
    return _without_casts("".join(lines))


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _insert_below(lines: list[str], function: ast.FunctionDef) -> None:
    """On the blank line that follows every function."""
    made = f"{' ' * function.col_offset}{function.name} = property({function.name})\n"
    at = function.end_lineno or 0
    if at < len(lines) and lines[at].strip():
        raise RuntimeError(f"no blank line below {function.name}")
    lines[at : at + 1] = [made]


def _without_casts(text: str) -> str:
    """`cast("Decimal", x)` as `(x)`; positions of `ast` count bytes."""
    lines = text.encode().splitlines(keepends=True)
    begins = [0, *accumulate(len(line) for line in lines)]
    calls = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cast"
    ]
    written = b"".join(lines)
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        value = call.args[1]
        begin = begins[call.lineno - 1] + call.col_offset
        end = begins[value.lineno - 1] + value.col_offset
        gap = b"\n" * written[begin:end].count(b"\n")
        written = b"".join((written[:begin], b"(", gap, written[end:]))
    return written.decode()
