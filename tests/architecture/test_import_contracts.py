"""Each import contract fails when it is broken: an import is added to a copy of the tree."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("tree")
    shutil.copy(ROOT / "pyproject.toml", copy)
    for source in sorted([*ROOT.glob("libs/*/src/*"), *ROOT.glob("services/*/src/*")]):
        if source.is_dir() and source.name.startswith("datarecs"):
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(source, copy / source.name, ignore=ignored)
    return copy


@pytest.fixture
def lint(tree: Path) -> Iterator["Lint"]:
    lint = Lint(tree)
    yield lint
    lint.restore()


class Lint:
    """Runs import-linter on the copy with one line added, and puts the copy back afterwards."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._touched: dict[Path, str | None] = {}

    def with_line(self, module: str, line: str) -> subprocess.CompletedProcess[str]:
        path = self._tree / (module.replace(".", "/") + ".py")
        if not path.exists():
            path = self._tree / module.replace(".", "/") / "__init__.py"
        before = path.read_text(encoding="utf-8")
        self._touched[path] = before
        path.write_text(before + f"\n{line}\n", encoding="utf-8")
        return self.run()

    def run(self) -> subprocess.CompletedProcess[str]:
        program = (
            "import sys; from importlinter.cli import lint_imports; "
            "sys.exit(lint_imports(no_cache=True))"
        )
        return subprocess.run(
            [sys.executable, "-c", program],
            cwd=self._tree,
            env={"PYTHONPATH": str(self._tree), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )

    def restore(self) -> None:
        for path, before in self._touched.items():
            if before is None:
                path.unlink()
            else:
                path.write_text(before, encoding="utf-8")


def test_the_tree_as_it_stands_satisfies_every_contract(lint: Lint) -> None:
    result = lint.run()
    assert result.returncode == 0, result.stdout


@pytest.mark.case("ARC-01")
@pytest.mark.parametrize("library", ["logging", "pydantic", "os"])
def test_core_may_not_import(lint: Lint, library: str) -> None:
    result = lint.with_line("datarecs_core.runs.model", f"import {library}")
    assert result.returncode == 1
    assert "Core is pure BROKEN" in result.stdout
    assert f"datarecs_core.runs.model -> {library}" in result.stdout


@pytest.mark.case("ARC-02")
@pytest.mark.parametrize(
    ("module", "library"),
    [("datarecs_run_controller", "pyspark"), ("datarecs_connectors", "kafka")],
)
def test_an_outside_thing_has_one_place(lint: Lint, module: str, library: str) -> None:
    result = lint.with_line(module, f"import {library}")
    assert result.returncode == 1
    assert f"One place for {library} BROKEN" in result.stdout


@pytest.mark.case("ARC-03")
@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("datarecs_run_controller", "datarecs_core_api"),
        ("datarecs_kafka", "datarecs_postgres"),
        ("datarecs_application", "datarecs_postgres"),
        ("datarecs_core.decision", "datarecs_events"),
        ("datarecs_cli.parts", "datarecs"),
    ],
)
def test_imports_point_downwards_only(lint: Lint, module: str, imported: str) -> None:
    result = lint.with_line(module, f"import {imported}")
    assert result.returncode == 1
    assert "Layers BROKEN" in result.stdout


@pytest.mark.case("ARC-04")
@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("datarecs_run_controller.handlers", "datarecs_postgres.database"),
        ("datarecs_core_api.routes.runs", "datarecs_postgres.queries"),
        ("datarecs_core_api.auth", "datarecs_storage.blobs"),
    ],
)
def test_handlers_and_routes_know_no_adapter(lint: Lint, module: str, imported: str) -> None:
    result = lint.with_line(module, f"import {imported}")
    assert result.returncode == 1
    assert "Only wiring wires BROKEN" in result.stdout
    assert f"{module} -> {imported}" in result.stdout


@pytest.mark.case("ARC-04")
@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("datarecs_run_controller.wiring", "datarecs_postgres.audit"),
        ("datarecs_core_api.routes.runs", "datarecs_reports.model"),
        ("datarecs_run_controller.handlers", "datarecs_runtime.clock"),
    ],
)
def test_wiring_knows_them_all_and_routes_may_render(
    lint: Lint, module: str, imported: str
) -> None:
    result = lint.with_line(module, f"import {imported}")
    assert result.returncode == 0, result.stdout


@pytest.mark.case("ARC-05")
def test_shipped_code_may_not_import_test_code(lint: Lint) -> None:
    result = lint.with_line("datarecs_memory", "import datarecs_testing")
    assert result.returncode == 1
    assert "Tests never ship BROKEN" in result.stdout
