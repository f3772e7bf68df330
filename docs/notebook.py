"""The notebook of the pages: its cells are executed, and their outputs stored in it.

`--write` stores them, `--check` fails when one differs. Cells are executed in this process, as
plain Python: they show only the value of their last line, so a Jupyter kernel, with a process and
separate sockets, would add nothing.
"""

import argparse
import ast
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).resolve().parent / "examples" / "python.ipynb"


def executed(notebook: Mapping[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs of its cells, executed from the first to the last."""
    names: dict[str, object] = {"__name__": "__main__"}
    cells, number = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            cells.append(cell)
            continue
        number += 1
        outputs = _outputs("".join(cell["source"]), names, number)
        cells.append({**cell, "execution_count": number, "outputs": outputs})
    return {**notebook, "cells": cells}


def _outputs(source: str, names: dict[str, object], number: int) -> list[dict[str, Any]]:
    """What the cell prints, and the value of its last line if it is an expression."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = StringIO(), None
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102 - the notebook is ours
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307 - the notebook is ours
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = _lines(printed.getvalue())
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        outputs.append(
            {
                "data": _forms(value),
                "execution_count": number,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return outputs


def _forms(value: object) -> dict[str, list[str]]:
    shown = getattr(value, "_repr_html_", None)
    html = {} if shown is None else {"text/html": _lines(shown())}
    return {**html, "text/plain": _lines(repr(value))}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare the outputs; 1 when one differs."""
    parser = argparse.ArgumentParser(prog="python docs/notebook.py", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="store the outputs")
    what.add_argument("--check", action="store_true", help="fail when an output differs")
    options = parser.parse_args(arguments)
    stored = NOTEBOOK.read_text(encoding="utf-8")
    text = json.dumps(executed(json.loads(stored)), indent=1, ensure_ascii=False) + "\n"
    if options.write:
        NOTEBOOK.write_text(text, encoding="utf-8")
    elif text != stored:
        sys.stderr.write(f"{NOTEBOOK.name}: outputs have changed; run `make docs`\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
