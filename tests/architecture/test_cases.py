"""The list of acceptance cases is correct: it counts marked cases and names missing ones."""

import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
MARKED = 'import pytest\n\n\n@pytest.mark.case("K02")\ndef test_x() -> None: ...\n'


@pytest.fixture
def cases() -> ModuleType:
    spec = spec_from_file_location("cases", ROOT / "tests/cases.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A workspace that requires three cases and has a test of one."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/cases.toml").write_text('stack = ["K02..03", "U01"]\n')
    (tmp_path / "libs/one/tests").mkdir(parents=True)
    (tmp_path / "libs/one/tests/test_one.py").write_text(MARKED)
    return tmp_path


@pytest.mark.case("STY-09")
def test_an_id_without_a_test_is_listed(
    cases: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cases.main([], root=tree) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert " ".join(first.split()) == "stack 1 of 3 open: K03 U01"


@pytest.mark.case("STY-09")
def test_a_release_needs_none(cases: ModuleType, tree: Path) -> None:
    assert cases.main(["--release"], root=tree) == 1
    (tree / "tests/cases.toml").write_text('stack = ["K02"]\n')
    assert cases.main(["--release"], root=tree) == 0


def test_every_area_of_this_release_can_be_read(cases: ModuleType) -> None:
    ids = [one for some in cases.wanted(ROOT).values() for one in some]
    assert len(ids) == len(set(ids))
    assert "L01" in ids


def test_an_id_that_waits_names_the_surface(
    cases: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "tests/cases.toml").write_text('stack = ["K02"]\n[waiting]\n"the chart" = ["X90"]\n')
    assert cases.main(["--release"], root=tree) == 0
    assert "waiting for the chart: X90\n" in capsys.readouterr().out


def test_every_security_case_is_promised_or_waits_and_none_does_both(cases: ModuleType) -> None:
    promised = set(cases.wanted(ROOT)["security"])
    others = (one for ids in cases.waiting(ROOT).values() for one in ids)
    waiting = {one for one in others if one.startswith("X")}
    assert promised | waiting == {f"X{number:02d}" for number in range(1, 97)}
    assert not promised & waiting


def test_every_id_in_a_test_and_in_the_lists_has_its_text(cases: ModuleType) -> None:
    texts = tomllib.loads((ROOT / "tests/case_texts.toml").read_text(encoding="utf-8"))
    listed = [*cases.wanted(ROOT).values(), *cases.waiting(ROOT).values()]
    ids = cases.marked(ROOT) | {one for each in listed for one in each}
    assert sorted(ids - set(texts)) == []
    assert all(texts.values())
