"""Notebooks as pages of the site: `examples/python.ipynb` becomes `examples/python.md`.

The stored outputs are shown; nothing is executed.
"""

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ENDING = ".ipynb"
_LINK = re.compile(r"(\]\([^)\s:]+)\.ipynb\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook."""
    for path in sorted(Path(config.docs_dir).rglob(f"*{_ENDING}")):
        page = path.relative_to(config.docs_dir).with_suffix(".md").as_posix()
        content = markdown_of(json.loads(path.read_text(encoding="utf-8")))
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(
    markdown: str,
    page: Page,  # noqa: ARG001 - mkdocs names it
    config: MkDocsConfig,  # noqa: ARG001 - mkdocs names it
    files: Files,  # noqa: ARG001 - mkdocs names it
) -> str:
    """Links to a notebook lead to its page."""
    return _LINK.sub(r"\1.md)", markdown)


def markdown_of(notebook: Mapping[str, Any]) -> str:
    """Texts as they are, code in fences, outputs below their code."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [shown for output in cell["outputs"] for shown in _shown(output)]
    return "\n\n".join(parts) + "\n"


def _shown(output: Mapping[str, Any]) -> Iterator[str]:
    data = output.get("data", {})
    if "text/html" in data:
        lines = "".join(data["text/html"]).splitlines()
        yield "<div>" + "".join(line.strip() for line in lines) + "</div>"
        return
    text = "".join(data.get("text/plain", output.get("text", [])))
    yield f"<pre><code>{escape(text.rstrip())}</code></pre>"
