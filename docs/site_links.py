"""Links of pages that leave docs/: on the site they are plain text, since it has no such page."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)(?:#[^)\s]*)?\)")


def on_page_markdown(
    markdown: str,
    page: Page,
    config: MkDocsConfig,
    files: Files,  # noqa: ARG001 - mkdocs names it
) -> str:
    """Replace links to files of the repository that are no part of the site."""
    docs = Path(config.docs_dir).resolve()
    folder = docs / Path(page.file.src_uri).parent

    def replaced(link: re.Match[str]) -> str:
        text, target = link.groups()
        if "://" in target or (folder / target).resolve().is_relative_to(docs):
            return link[0]
        return f"{text} (`{(folder / target).resolve().relative_to(docs.parent)}`)"

    return _LINK.sub(replaced, markdown)
