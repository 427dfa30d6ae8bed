"""Several labels a text in a real browser: by keyboard, by touch, from the list, to a fine-tuned run."""

import csv
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chromium import CHROMIUM, NO_BROWSER, PHONE
from label_page import Server, picture, shows_another
from playwright.sync_api import Page, expect
from tiny import TinyRuns

import greffon

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER)

LABELS = ("food", "price", "service")
SAYS = {
    "food": ("The soup was cold", "The fish was excellent"),
    "price": ("it cost too much", "a bargain"),
    "service": ("the waiter was rude", "we were served at once"),
}
PLACES = ("on a Monday", "in Lyon", "by the river", "near the station", "last summer", "with my parents")


def reviews() -> list[str]:
    lines = []
    for place in PLACES:
        lines.append(f"We went there {place}.")
        for food in ("", *SAYS["food"]):
            for other in (*SAYS["price"], *SAYS["service"]):
                lines.append(f"{food}{', ' if food else ''}{other}, {place}.")
    return lines


def labels_of(text: str) -> list[str]:
    return [label for label in LABELS if any(words in text for words in SAYS[label])]


@pytest.fixture(scope="module")
def server(tiny: TinyRuns, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("labelling")
    heap = folder / "reviews.txt"
    heap.write_text("\n".join(reviews()) + "\n", encoding="utf-8")
    words = ("--body", str(tiny.causal.path), "--task", "multilabel", "--labels", ",".join(LABELS))
    server = Server(folder / "session", str(heap), *words, "--author", "Zoé", "--aside-share", "0.3", "--aim", "0.9")
    yield server
    server.kill()


def label(page: Page, n: int) -> list[str]:
    """Label texts by keyboard: a digit for each label, then Enter."""
    shown = [""]
    for _ in range(n):
        shown.append(shows_another(page, shown[-1]))
        tick(page, labels_of(shown[-1]))
        page.keyboard.press("Enter")
    shows_another(page, shown[-1])
    return shown[1:]


def tick(page: Page, names: list[str]) -> None:
    for name in names:
        page.keyboard.press(str(1 + LABELS.index(name)))


def test_several_labels_by_keyboard_to_a_run(
    visit: Callable[..., Page],
    server: Server,
    tiny: TinyRuns,
    tmp_path: Path,
) -> None:
    page = visit()
    shown = label(page, 20)
    own = labels_of(shows_another(page, ""))
    for name in {*LABELS} - {*own}:
        page.keyboard.press(str(1 + LABELS.index(name)))
        expect(page.get_by_role("checkbox", name=name)).to_be_checked()
        page.keyboard.press(str(1 + LABELS.index(name)))
    tick(page, own)
    for name in LABELS:
        expect(page.get_by_role("checkbox", name=name)).to_be_checked(checked=name in own)
    picture(page, "label-several")
    server.kill()
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    for name in own:  # what was ticked is still there
        expect(page.get_by_role("checkbox", name=name)).to_be_checked()
    server.start()
    lost = page.locator("article .text").inner_text()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("status").first).to_have_text(f"Labelled {', '.join(own) or 'with none'}.")
    page.keyboard.press("Backspace")
    expect(page.locator("article .text")).to_have_text(lost)
    shown += label(page, 20)
    assert len(set(shown)) == 40
    server.kill(signal.SIGINT)
    with (server.session / "labels.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 28
    assert all(row["labels"] == "|".join(labels_of(row["text"])) for row in rows)
    run = greffon.finetune(tiny.causal, train=server.session / "labels.csv", out=tmp_path / "run", epochs=1, quiet=True)
    assert run.recipe.task == "multilabel"
    assert greffon.evaluate(run, server.session / "aside.csv").n == 12
    server.start()


def test_progress_and_changes_in_the_list(visit: Callable[..., Page]) -> None:
    page = visit()
    label(page, 10)
    page.get_by_role("tab", name="Progress").click()
    expect(page.get_by_text(re.compile(r"The body has a micro F1 of .* TF-IDF with the same labels"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^Micro F1 against labels"))).to_be_visible()
    page.keyboard.press("l")
    first = page.locator(".found li").first
    text = first.locator(".text").inner_text()
    wanted = {*labels_of(text)} ^ {"service"}
    first.get_by_role("checkbox", name="service").click()
    expect(first.locator(".facts")).to_have_text(f"now {', '.join(sorted(wanted)) or 'no label'}")
    page.reload()
    again = page.locator(".found li").first
    expect(again.locator(".text")).to_have_text(text)
    for name in LABELS:
        expect(again.get_by_role("checkbox", name=name)).to_be_checked(checked=name in wanted)


def test_without_a_label_and_by_touch(visit: Callable[..., Page]) -> None:
    page = visit(PHONE)
    text = shows_another(page, "")
    page.get_by_text("price", exact=True).tap()
    expect(page.get_by_role("checkbox", name="price")).to_be_checked()
    page.get_by_text("price", exact=True).tap()
    page.get_by_role("button", name="Save").tap()
    expect(page.get_by_role("status").first).to_have_text("Labelled with none.")
    shows_another(page, text)
    for tab in ("Texts", "Progress", "Label"):
        page.get_by_role("tab", name=tab).click()
        time.sleep(0.3)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], tab


def test_enter_on_a_ticked_box_saves_and_held_down_saves_once(visit: Callable[..., Page]) -> None:
    page = visit()
    text = shows_another(page, "")
    page.get_by_role("checkbox", name="food").click()
    page.keyboard.down("Enter")
    expect(page.get_by_role("status").first).to_have_text("Labelled food.")
    other = shows_another(page, text)
    page.keyboard.down("Enter")  # now as a repetition
    page.keyboard.up("Enter")
    time.sleep(0.5)
    expect(page.locator("article .text")).to_have_text(other)
    expect(page.get_by_role("checkbox", name="food")).not_to_be_checked()
