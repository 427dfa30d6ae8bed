"""The page of a labelling session in a real browser, over a server in a process of its own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chromium import DESK, new_tab
from playwright.sync_api import Browser, Page, expect


class Server:
    """`greffon label` in a process of its own."""

    def __init__(self, session: Path, *words: str) -> None:
        self.session = session
        self.words = words
        self.port = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "greffon", "label", *self.words, "--out", str(self.session)]
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port)], stderr=subprocess.PIPE, text=True, env={**os.environ}
        )
        said = ""
        while "http://" not in said:
            said = self.process.stderr.readline()
            assert said, "the server did not start"
        self.port = int(re.findall(r"http://127\.0\.0\.1:(\d+)", said)[0])
        self.words = ("--author", "Zoé")  # from now on it goes on

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill(self, how: int = signal.SIGKILL) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=60)


@pytest.fixture
def visit(browser: Browser, server: Server) -> Iterator[Callable[..., Page]]:
    """Open a tab of the page; nothing may go wrong in it, and nothing may come from elsewhere."""
    contexts, troubles = [], []

    def open_page(size: dict[str, int] = DESK, colours: str = "light") -> Page:
        page = new_tab(browser, size, colours, troubles)
        contexts.append(page.context)
        page.on("request", lambda request: request.url.startswith(server.url) or troubles.append(request.url))
        page.goto(server.url)
        expect(page.get_by_role("tabpanel")).to_be_visible()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


def shows_another(page: Page, before: str) -> str:
    text = page.locator("article .text")
    expect(text).not_to_have_text(before)
    return text.inner_text()


def picture(page: Page, name: str) -> None:
    folder = os.environ.get("GREFFON_SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png")
