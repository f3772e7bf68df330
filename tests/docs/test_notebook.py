"""The notebook of the pages: executed cell by cell, with the outputs that it stores."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs/examples/python.ipynb"


@pytest.mark.case("U52")
def test_its_cells_run_and_show_what_it_stores(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "docs/notebook.py"), "--check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_it_is_a_notebook_that_jupyter_opens() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] and cell["execution_count"] for cell in code)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
