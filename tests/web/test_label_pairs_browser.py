"""Pairs of texts in a real browser: both are shown, by keyboard, to a fine-tuned run; on a telephone."""

import csv
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chromium import CHROMIUM, NO_BROWSER, PHONE
from label_page import Server, picture
from playwright.sync_api import Page, expect
from tiny import TinyRuns

import greffon

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER)

QUESTIONS = {
    "card": ("Where is my new card?", "My card has not arrived yet.", "How long does a card take?"),
    "transfer": ("When does my transfer arrive?", "My transfer is late.", "How long does a transfer take?"),
    "code": ("How do I change my code?", "I have forgotten my code.", "Can I choose another code?"),
}
MARKUP = "<img src=x onerror=\"document.title = 'broken'\">"


def topic(text: str) -> str:
    return next(name for name, texts in QUESTIONS.items() if any(own in text for own in texts))


@pytest.fixture(scope="module")
def server(tiny: TinyRuns, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("labelling")
    texts = [text for own in QUESTIONS.values() for text in own]
    with (folder / "pairs.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("text_a", "text_b"))
        table.writerows((a, b) for a in texts for b in texts if a != b)
        table.writerow((texts[0], f"{MARKUP} {texts[1]}"))
    words = ("--body", str(tiny.causal.path), "--labels", "same,different", "--aside-share", "0.3")
    server = Server(folder / "session", str(folder / "pairs.csv"), *words)
    yield server
    server.kill()


def shown(page: Page, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the pair on the page, once it is another one."""
    if before:
        expect(page.locator("article .text")).not_to_have_text([re.compile(re.escape(part)) for part in before])
    expect(page.locator("article .text").nth(1)).not_to_have_text("")
    return tuple(page.locator("article .text").all_inner_texts())


def key(pair: tuple[str, ...]) -> str:
    return "1" if topic(pair[0]) == topic(pair[1]) else "2"


def test_pairs_by_keyboard_to_a_run(visit: Callable[..., Page], server: Server, tiny: TinyRuns, tmp_path: Path) -> None:
    page = visit()
    pairs = [shown(page)]
    expect(page.get_by_role("article", name="Pair of texts to label")).to_contain_text("Second text")
    for number in range(30):
        page.keyboard.press(key(pairs[-1]))
        pairs.append(shown(page, pairs[-1]))
        if number == 14:
            picture(page, "label-pairs")
    assert len({*pairs}) == 31
    page.keyboard.press("/")
    page.keyboard.type("onerror")
    page.keyboard.press("Enter")
    expect(page.locator(".found li")).to_have_count(1)
    expect(page.locator(".found .text").nth(1)).to_contain_text(MARKUP)
    page.locator(".found li").get_by_label("Label").select_option("same")
    expect(page.locator(".found .facts")).to_have_text("now same")
    assert page.title() == "Texts · Greffon"
    assert server.kill(signal.SIGINT) == 130
    with (server.session / "labels.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 21
    assert all((row["label"] == "same") == (topic(row["text_a"]) == topic(row["text_b"])) for row in rows)
    run = greffon.finetune(tiny.causal, train=server.session / "labels.csv", out=tmp_path / "run", epochs=1, quiet=True)
    assert run.recipe.task == "pairs"
    assert greffon.evaluate(run, server.session / "aside.csv").n == 9
    server.start()


def test_pairs_on_a_telephone(visit: Callable[..., Page]) -> None:
    page = visit(PHONE)
    pair = shown(page)
    page.get_by_role("button", name="same" if key(pair) == "1" else "different").tap()
    shown(page, pair)
    for tab in ("Texts", "Progress", "Label"):
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tabpanel")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], tab
