"""The documentation site: built strictly, complete, and without a file of any other host."""

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOADING = {"script": "src", "link": "href", "img": "src", "iframe": "src"}
"""Attributes with files that a browser loads with the page."""


class Loads(HTMLParser):
    """Collects the addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "link" and attributes.get("rel") in {"canonical", "next", "prev"}:
            return
        address = attributes.get(LOADING.get(tag, ""))
        if address:
            self.addresses.append(address)


def foreign_addresses(page: str) -> list[str]:
    loads = Loads()
    loads.feed(page)
    return [address for address in loads.addresses if address.startswith(("http:", "https:", "//"))]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    names = {path.with_name("index.md") if path.name == "README.md" else path for path in pages}
    missing = [name for name in names if not (site / name).with_suffix(".html").exists()]
    assert missing == []


def test_no_page_loads_a_file_of_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    faults = {page.name: foreign_addresses(page.read_text(encoding="utf-8")) for page in pages}
    assert {name: addresses for name, addresses in faults.items() if addresses} == {}


def test_an_address_of_another_host_is_noticed() -> None:
    page = '<script src="https://example.com/a.js"></script><link href="//x.org/b.css">'
    assert len(foreign_addresses(page)) == 2
