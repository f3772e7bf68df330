"""One tab of the system's Chromium for all tests of this folder."""

from collections.abc import Iterator

import pytest

from datarecs_testing.browser import Page, browser_program, open_browser
from datarecs_testing.plugin import lacking


@pytest.fixture(scope="session")
def page(request: pytest.FixtureRequest) -> Iterator[Page]:
    program = browser_program()
    if program is None:
        lacking(request.config, "browser", "install chromium-headless-shell")
    with open_browser(program) as opened:
        yield opened
