"""A real browser for the tests of pages, where there is one."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NO_BROWSER = "no browser: apt-get install chromium"
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def new_tab(browser: Browser, size: dict[str, int], colours: str, troubles: list[str]) -> Page:
    """Open an empty tab of its own; errors of its scripts are added to the troubles."""
    page = browser.new_context(viewport=size, color_scheme=colours, has_touch=size is PHONE).new_page()
    page.set_default_timeout(60_000)
    expect.set_options(timeout=60_000)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    return page
