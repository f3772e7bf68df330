"""`/` and `/docs` answer a person, without a script, a foreign host or a key."""

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from datarecs_core_api.openapi import document
from datarecs_testing.api import memory_api

PATHS = ("/", "/docs")


class Tags(HTMLParser):
    """Every tag with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def page_at(path: str) -> str:
    answer = memory_api().bearing(None).get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return answer.text


def test_the_start_page_describes_the_server_and_the_next_steps() -> None:
    page = page_at("/")
    assert "compares data of several sources" in page
    for link in ("/docs", "/openapi.json"):
        assert f'href="{link}"' in page
    assert "datarecs login --server" in page
    assert "datarecs key create" in page


def test_the_documentation_has_every_published_operation_with_its_permission() -> None:
    page = page_at("/docs")
    published = [
        (path, method, operation)
        for path, item in document()["paths"].items()
        for method, operation in item.items()
        if isinstance(operation, dict) and "operationId" in operation
    ]
    assert len(published) > 20
    for path, method, operation in published:
        start = page.index(f'<details id="{operation["operationId"]}">')
        part = page[start : page.index("</details>", start)]
        assert f"{method.upper()}</span> <code>{path}</code>" in part
        assert str(operation.get("x-datarecs-permission", "none; no API key is needed")) in part
        for status in operation["responses"]:
            assert f"<th>{status}</th>" in part


@pytest.mark.parametrize("path", PATHS)
def test_pages_load_nothing_and_run_nothing(path: str) -> None:
    """There is no request besides the page itself, not even a blocked one."""
    page = page_at(path)
    for tag, attributes in Tags(page).tags:
        assert tag not in {"script", "link", "img", "iframe", "form", "object", "base"}
        assert not {"src", "srcset", "style"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
        target = attributes.get("href") or "/"
        assert target.startswith("/")
    assert "url(" not in page
    assert "@import" not in page


@pytest.mark.parametrize("path", PATHS)
def test_the_policy_allows_the_style_of_the_page_and_nothing_else(path: str) -> None:
    answer = memory_api().bearing(None).get(path)
    policy = answer.headers["content-security-policy"]
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    assert f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in policy
    for part in ("default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"):
        assert part in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.case("U33")
@pytest.mark.parametrize("path", PATHS)
def test_pages_take_get_alone_and_no_parameters(path: str) -> None:
    client = memory_api().bearing(None)
    head = client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    wrong = client.post(path)
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, "GET, HEAD")
    unknown = client.get(f"{path}?next=https://evil.example.com")
    assert unknown.headers["content-type"] == "application/problem+json"
    assert "evil" not in unknown.text
