"""Labelling in a real browser: by keyboard, through a kill of the server, to a fine-tuned classifier.

The screenshots in docs/img are made here, with GREFFON_SCREENSHOTS=docs/img.
"""

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
from serving import until
from tiny import SHAPE, TinyRuns

import greffon

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER)

SCRIPT = "<script>document.title = 'broken'</script><img src=x onerror=\"document.title = 'broken'\">"
LIKES = ("loved", "superb", "moving", "a joy", "brilliant")
HATES = ("dull", "a waste of time", "lifeless", "clumsy", "a bore")
PARTS = ("The plot", "The acting", "The music", "The ending", "The dialogue", "The camera work")
PLACES = (
    "from the first scene to the last",
    "even on a second viewing",
    "in spite of a small budget",
    "as my friends said",
)


def reviews() -> list[str]:
    words = [*LIKES, *HATES]
    lines = [f"{part} of this film is {word}, {place}." for part in PARTS for word in words for place in PLACES]
    return [*lines, f"{SCRIPT} This one is superb."]


def key_of(text: str) -> str:
    return "1" if any(word in text for word in LIKES) else "2"


@pytest.fixture(scope="module")
def server(tiny: TinyRuns, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("labelling")
    heap = folder / "reviews.txt"
    heap.write_text("\n".join(reviews()) + "\n", encoding="utf-8")
    shape = {**SHAPE, "steps": 3, "batch_size": 4, "vocab_size": 290, "quiet": True}
    body = greffon.pretrain([heap], objective="contrastive", out=folder / "body", **shape)
    words = ("--body", str(body.path), "--labels", "positive,negative", "--aim", "0.9", "--author", "Zoé")
    server = Server(folder / "session", str(heap), *words, "--aside-share", "0.3")
    yield server
    server.kill()


def label(page: Page, n: int) -> list[str]:
    """Label texts by keyboard, each with the right digit."""
    shown = []
    for _ in range(n):
        text = shows_another(page, shown[-1] if shown else "")
        shown.append(text)
        page.keyboard.press(key_of(text))
    shows_another(page, shown[-1])
    return shown


def test_from_texts_to_a_classifier_by_keyboard(
    visit: Callable[..., Page], server: Server, tiny: TinyRuns, tmp_path: Path
) -> None:
    page = visit()
    expect(page.get_by_text("30 % of the texts are drawn at random and kept aside")).to_be_visible()
    shown = label(page, 15)
    picture(page, "label")
    server.kill()
    page.keyboard.press("1")
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    server.start()
    lost = page.locator("article .text").inner_text()
    page.get_by_role("button", name="Try again").click()
    shows_another(page, lost)
    page.keyboard.press("Backspace")  # that was a guess
    expect(page.get_by_role("status").first).to_have_text("Taken back.")
    expect(page.locator("article .text")).to_have_text(lost)
    shown += label(page, 15)
    assert len(set(shown)) == 30
    page.reload()
    expect(page.locator(".standing").first).to_contain_text("21 labels")
    page.keyboard.press("p")
    expect(page.get_by_text("21 labels to train on, 9 kept aside")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="labels.csv").click()
    with Path(download.value.path()).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 21
    assert all(row["label"] == {"1": "positive", "2": "negative"}[key_of(row["text"])] for row in rows)
    assert {row["author"] for row in rows} == {"Zoé"}
    assert {row["text"] for row in rows} < set(shown)
    file = server.session / "labels.csv"
    until(lambda: file.read_bytes() == Path(download.value.path()).read_bytes())  # it is written in the background
    run = greffon.finetune(tiny.causal, train=server.session / "labels.csv", out=tmp_path / "run", epochs=1, quiet=True)
    assert greffon.evaluate(run, server.session / "aside.csv").n == 9


def test_progress_and_review(visit: Callable[..., Page], server: Server) -> None:
    page = visit()
    label(page, 40)  # of which a forecast needs ten that are kept aside, whatever tests have run before
    page.get_by_role("tab", name="Progress").click()
    expect(page.get_by_text(re.compile(r"The body is right about .* TF-IDF with the same labels"))).to_be_visible()
    expect(page.get_by_text(re.compile("With twice the labels, about"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^Accuracy against labels"))).to_be_visible()
    picture(page, "label-progress")
    page.keyboard.press("/")
    page.keyboard.type("superb, even")
    page.keyboard.press("Enter")
    expect(page.locator(".found li")).to_have_count(6)
    first = page.locator(".found li").first
    first.get_by_label("Label").select_option("negative")
    expect(first.locator(".facts")).to_have_text("now negative")
    page.get_by_label("Search").fill("")
    page.get_by_label("Show").select_option("labelled")
    expect(page.locator(".found .facts").first).to_contain_text("Zoé")
    picture(page, "label-texts")


def test_markup_is_shown_as_text(visit: Callable[..., Page]) -> None:
    page = visit()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.get_by_role("searchbox").fill("onerror")
    page.keyboard.press("Enter")
    expect(page.locator(".found .text")).to_have_count(1)  # until the answer comes, all texts are listed
    expect(page.locator(".found .text")).to_have_text(f"{SCRIPT} This one is superb.")
    assert page.locator(".found script, .found img").count() == 0
    assert page.title() == "Texts · Greffon"


def test_skip_flag_and_second_judgements(visit: Callable[..., Page], server: Server) -> None:
    page = visit()
    label(page, 6)  # there is something to judge a second time
    text = page.locator("article .text").inner_text()
    page.keyboard.press("s")
    expect(page.get_by_role("status").first).to_have_text("Skipped.")
    other = shows_another(page, text)
    page.keyboard.press("f")
    expect(page.get_by_role("status").first).to_have_text("Flagged as odd.")
    shows_another(page, other)
    page.keyboard.press("l")
    page.get_by_label("Show").select_option("flagged")
    expect(page.locator(".found .text")).to_have_count(1)
    expect(page.locator(".found .text")).to_have_text(other)
    page.keyboard.press("Escape")
    page.get_by_text("Keys, your name, second judgements").click()
    before = page.locator("article .text").inner_text()
    page.get_by_label("Judge labelled texts a second time").check()
    shows_another(page, before)
    for _ in range(3):
        shown = page.locator("article .text").inner_text()
        page.get_by_role("button", name="positive" if key_of(shown) == "1" else "negative").click()
        shows_another(page, shown)
    page.get_by_role("tab", name="Progress").click()
    expect(page.get_by_text(re.compile(r"of 3 second judgements agree with the first"))).to_be_visible()


def test_a_key_that_is_held_down_judges_one_text(visit: Callable[..., Page]) -> None:
    page = visit()
    text = shows_another(page, "")
    page.keyboard.down(key_of(text))
    other = shows_another(page, text)
    for _ in range(3):
        page.keyboard.down(key_of(text))  # now as a repetition
    page.keyboard.up(key_of(text))
    time.sleep(0.5)
    expect(page.locator("article .text")).to_have_text(other)


def test_two_tabs_get_different_texts(visit: Callable[..., Page]) -> None:
    pages = visit(), visit()
    texts = [shows_another(page, "") for page in pages]
    assert texts[0] != texts[1]
    pages[0].keyboard.press(key_of(texts[0]))
    assert shows_another(pages[0], texts[0]) != texts[1]


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_it_fits_a_phone_and_is_labelled(visit: Callable[..., Page], colours: str) -> None:
    page = visit(PHONE, colours)
    for tab in ("Texts", "Progress", "Label"):
        page.get_by_role("tab", name=tab).click()
        panel = page.get_by_role("tabpanel")
        expect(panel).to_be_visible()
        time.sleep(0.3)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], tab
        fields = panel.locator("input, select, textarea, button")
        unnamed = "one => !one.labels?.length && !one.getAttribute('aria-label') && !one.textContent.trim()"
        assert fields.evaluate_all(f"all => all.filter({unnamed}).map(one => one.outerHTML)") == [], tab
    text = shows_another(page, "")
    if colours == "dark":
        picture(page, "label-phone")
    page.get_by_role("button", name="positive" if key_of(text) == "1" else "negative").tap()
    expect(page.get_by_role("status").first).to_have_text(re.compile(r"^Labelled \w+\.$"))


def test_ctrl_c_ends_the_server_and_keeps_the_labels(visit: Callable[..., Page], server: Server) -> None:
    shown = label(visit(), 3)
    assert server.kill(signal.SIGINT) == 130
    with greffon.label(out=server.session) as session:
        assert {*shown} <= {*session.labels()}
    server.start()
