"""The page in a real browser, each tab used as a person would: by mouse and by keyboard, on a desk and on a phone."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from chromium import CHROMIUM, DESK, NO_BROWSER, PHONE, new_tab
from playwright.sync_api import Browser, Page, expect
from serving import Address, Kinds, running, until

import greffon
from greffon.inference import sampling
from greffon.web.limits import Limits

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER)


@pytest.fixture(scope="module")
def growing(kinds: Kinds, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has only just begun."""
    run: Path = tmp_path_factory.mktemp("live") / "growing"
    run.mkdir()
    (run / "recipe.json").write_bytes((kinds.causal.path / "recipe.json").read_bytes())
    return run


@pytest.fixture(scope="module")
def server(kinds: Kinds, growing: Path) -> Iterator[Address]:
    with running([*kinds.paths, growing], Limits()) as address:
        yield address


@pytest.fixture
def visit(browser: Browser, server: Address) -> Iterator[Callable[..., Page]]:
    """Open a tab of the page; nothing may go wrong in it, and nothing may come from elsewhere."""
    contexts, troubles = [], []

    def open_page(
        tab: str, size: dict[str, int] = DESK, colours: str = "light", before: Callable | None = None
    ) -> Page:
        page = new_tab(browser, size, colours, troubles)
        contexts.append(page.context)
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: _own(request.url, server, troubles))
        if before is not None:
            before(page)
        page.goto(f"{server.url}/#{tab}")
        expect(page.get_by_role("tabpanel")).to_be_visible()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [trouble for trouble in troubles if "400 (Bad Request)" not in trouble] == []


def _own(url: str, server: Address, troubles: list[str]) -> None:
    if not url.startswith(server.url):
        troubles.append(f"asked for {url}")


def settles(page: Page, css: str, expected: list[float]) -> None:
    """Wait for elements to be shaded as expected."""
    found: list[float] = []

    def shaded() -> bool:
        found[:] = page.locator(css).evaluate_all("all => all.map(one => +one.style.getPropertyValue('--share'))")
        return found == pytest.approx(expected, abs=2e-3)

    try:
        until(shaded)
    except AssertionError:
        assert found == pytest.approx(expected, abs=2e-3)


def test_write(visit: Callable[..., Page], kinds: Kinds) -> None:
    page = visit("generate")
    page.get_by_label("Prompt").fill("le chat")
    page.get_by_text("Sampling").click()
    page.get_by_label("Maximum of new tokens").fill("8")
    page.get_by_label("Prompt").press("Control+Enter")
    expect(page.get_by_role("status")).to_have_text(re.compile(r"^Done: \d+ tokens\.$"))
    expected = greffon.generate(kinds.causal, "le chat", max_new_tokens=8)
    expect(page.locator(".answer .text")).to_have_text(re.compile("^" + re.escape(expected.text.strip())))
    first = next(greffon.stream(kinds.causal, "le chat", max_new_tokens=8, alternatives=6))
    tokens, card = page.locator(".answer .token"), page.get_by_role("complementary")
    tokens.first.click()
    expect(card.locator(".bar .name")).to_have_text([one.token.strip() for one in first.alternatives])
    expect(card.locator(".bar.mine .name")).to_have_text(first.token.strip())
    tokens.first.press("ArrowRight")
    expect(tokens.nth(1)).to_be_focused()
    expect(card.locator(".word")).to_have_text(tokens.nth(1).inner_text())
    page.keyboard.press("Home")
    other = next(one.token for one in first.alternatives if one.token != first.token and one.token.strip().isalpha())
    card.get_by_role("button", name=f"Continue with “{other.strip()}” instead").click()
    expect(page.locator(".answer .given")).to_have_text(f"le chat{other}")
    expect(tokens.first).to_be_visible()


def test_a_stopped_answer_stops_on_the_server(
    visit: Callable[..., Page], server: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, logits = [], sampling.Reader.logits

    def slow(self: sampling.Reader) -> object:
        steps.append(time.sleep(0.05))
        return logits(self)

    monkeypatch.setattr(sampling.Reader, "logits", slow)
    page = visit("generate")
    page.get_by_text("Sampling").click()
    page.get_by_label("Maximum of new tokens").fill("400")
    page.get_by_label("Temperature").fill("3")
    page.get_by_role("button", name="Generate", exact=True).click()
    expect(page.locator(".answer .text span").nth(3)).to_be_attached()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("status")).to_have_text("Stopped.")
    until(lambda: server.working == 0)
    assert len(steps) < 400
    expect(page.locator(".answer .token").first).to_be_visible()  # what was written can be looked at


def test_fill(visit: Callable[..., Page], kinds: Kinds) -> None:
    page = visit("fill")
    area = page.get_by_label("Text")
    area.fill("le chat dort")
    area.evaluate("area => area.setSelectionRange(3, 7)")
    page.get_by_role("button", name="Mask the selected word").click()
    expect(area).to_have_value("le [MASK] dort")
    page.get_by_role("button", name="Fill", exact=True).click()
    candidates = greffon.fill(kinds.masked, "le [MASK] dort", top_k=6)[0].candidates
    expect(page.locator(".bar")).to_have_count(6)
    expect(page.locator("mark")).to_have_text(candidates[0].token.strip())
    page.locator(".bar").nth(1).focus()
    page.keyboard.press("Enter")
    expect(page.locator("mark")).to_have_text(candidates[1].token.strip())
    expect(page.locator(".bar").nth(1)).to_be_focused()


def test_classify(visit: Callable[..., Page], kinds: Kinds) -> None:
    page = visit("classify")
    page.get_by_label("Text").fill("le chat dort")
    page.get_by_role("button", name="Classify", exact=True).click()
    found = greffon.occlude(kinds.classifier, "le chat dort")
    expect(page.locator(".verdict")).to_have_text(found.label)
    expect(page.locator("span.shaded")).to_have_text(["le", "chat", "dort"])
    influences = np.abs([word.influence for word in found.words])
    settles(page, "span.shaded", (influences / influences.max() * (1 if influences.max() > 0.005 else 0.1)).tolist())
    page.get_by_text("The most influential words as a table").click()
    expect(page.get_by_role("row")).to_have_count(4)
    other = next(label for label in found.probabilities if label != found.label)
    page.get_by_role("button", name=f"Influence of the words on {other}").click()
    expect(page.get_by_role("heading", name=f"Influence of each word on “{other}”")).to_be_visible()


def test_translate(visit: Callable[..., Page], kinds: Kinds) -> None:
    page = visit("translate")
    page.get_by_label("Sentence").fill("two red dog")
    page.get_by_role("button", name="Translate", exact=True).click()
    made = greffon.translate(kinds.translator, "two red dog")[0].translation
    expect(page.locator(".verdict")).to_have_text(" ".join(made.split()) or "(nothing)")
    source, target = page.locator(".pair .text").nth(0), page.locator(".pair .text").nth(1)
    looked = greffon.attention(kinds.translator, "two red dog", made)
    expect(source.locator(".token")).to_have_count(len(looked.keys))
    target.locator(".token").first.hover()
    by_layer = [(layer.mean(axis=0)[0] ** 0.6).tolist() for layer in looked.weights]
    settles(page, ".pair div:first-child .token", by_layer[1])
    page.get_by_role("radio", name="1").first.check(force=True)  # the other layer
    settles(page, ".pair div:first-child .token", by_layer[0])
    page.get_by_role("radio", name="2").last.check(force=True)  # one head of it
    settles(page, ".pair div:first-child .token", (looked.of(1, 2)[0] ** 0.6).tolist())
    source.locator(".token").first.focus()
    settles(page, ".pair div:last-child .token", (looked.of(1, 2)[:, 0] ** 0.6).tolist())


def test_attention(visit: Callable[..., Page], kinds: Kinds) -> None:
    page = visit("attention")
    page.get_by_label("Run", exact=True).select_option("masked")
    page.get_by_label("Text").fill("le chat dort")
    page.get_by_role("button", name="Show attention").click()
    looked = greffon.attention(kinds.masked, "le chat dort")
    expect(page.get_by_role("heading", name=re.compile("^Head"))).to_have_count(2)
    tokens = page.locator(".answer .answer .token")
    expect(tokens).to_have_count(len(looked.queries))
    tokens.nth(2).hover()
    settles(page, ".head:nth-child(2) .shaded", (looked.of(1, 2)[2] ** 0.6).tolist())
    page.get_by_label("what attends to it").check(force=True)
    tokens.nth(1).focus()
    settles(page, ".head:nth-child(1) .shaded", (looked.of(1, 1)[:, 1] ** 0.6).tolist())
    page.get_by_role("radio", name="2").check(force=True)
    settles(page, ".head:nth-child(1) .shaded", (looked.of(2, 1)[:, 1] ** 0.6).tolist())
    expect(page.locator(".habit").first).to_contain_text("spread over")
    page.get_by_label("Run", exact=True).select_option("translator")
    expect(page.get_by_label("Kind of attention")).to_be_visible()


def test_runs(visit: Callable[..., Page], kinds: Kinds, growing: Path) -> None:
    page = visit("runs")
    picture = page.get_by_role("img")
    expect(picture).to_have_attribute("aria-label", re.compile("^Loss against steps; last values: causal"))
    expect(page.locator("path.held")).to_have_count(4)
    page.get_by_label("minutes").check(force=True)
    expect(picture).to_have_attribute("aria-label", re.compile("against minutes"))
    page.get_by_label("Show the curve of masked").uncheck()
    expect(page.locator("path.held")).to_have_count(3)
    page.get_by_text("Parameters by component").first.click()
    expect(page.locator("tfoot")).to_contain_text(f"{greffon.params(kinds.causal).total:,}")
    page.get_by_text("The report").click()
    assert page.locator("iframe").get_attribute("sandbox") == ""
    expect(page.frame_locator("iframe").get_by_role("heading", name="Did pretraining pay off?")).to_be_visible()
    # A training goes on elsewhere, and the page follows.
    with (growing / "metrics.jsonl").open("w") as log:
        log.writelines(f'{{"step": {step}, "loss": {6 - step}, "seconds": {step}}}\n' for step in (1, 2, 3))
    expect(picture).to_have_attribute("aria-label", re.compile("growing 3"))
    expect(page.get_by_label("Progress of growing")).to_be_visible()
    expect(page.frame_locator("iframe").get_by_role("heading", name="Did pretraining pay off?")).to_be_visible()


def test_tabs_and_colours_by_keyboard(visit: Callable[..., Page]) -> None:
    page = visit("generate")
    page.get_by_role("tab", name="Generate").focus()
    for name in ("Fill", "Classify", "Answer", "Translate", "Attention", "Runs", "Generate"):
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name=name)).to_be_focused()
        expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")
        expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.get_by_role("button", name=re.compile("^Colours: system")).click()
    assert page.evaluate(paper) == light
    page.get_by_role("button", name=re.compile("^Colours: light")).click()
    assert page.evaluate(paper) != light
    page.reload()
    assert page.evaluate(paper) != light  # remembered


def test_mistakes_are_told_in_one_sentence(visit: Callable[..., Page]) -> None:
    page = visit("fill")
    page.get_by_label("Text").fill("rien de caché")
    page.get_by_role("button", name="Fill", exact=True).click()
    expect(page.get_by_role("alert")).to_have_text(
        "The text has no [MASK] to fill; write [MASK] where a token is to be predicted."
    )


def test_nothing_to_ask_is_told_with_the_command(visit: Callable[..., Page]) -> None:
    nothing = {"version": "0", "runs": [], "comparisons": []}
    page = visit("", before=lambda page: page.route("**/api/runs", lambda route: route.fulfill(json=nothing)))
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    expect(page.get_by_text("Choose runs below")).to_have_count(1)
    for tab in ("Generate", "Fill", "Classify", "Answer", "Translate", "Attention"):
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tabpanel").get_by_text("greffon serve runs/")).to_be_visible()


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_everything_fits_a_phone_and_is_labelled(visit: Callable[..., Page], colours: str) -> None:
    page = visit("generate", PHONE, colours)
    for tab in ("Generate", "Fill", "Classify", "Answer", "Translate", "Attention", "Runs"):
        page.get_by_role("tab", name=tab).click()
        if tab not in ("Answer", "Runs"):  # no run that the tab Answer could ask is served here
            page.get_by_role("tabpanel").locator("button.go").click()
            expect(page.locator("[aria-busy]")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], tab
        fields = page.get_by_role("tabpanel").locator("input, select, textarea")
        unnamed = "one => !one.labels?.length && !one.getAttribute('aria-label')"
        assert fields.evaluate_all(f"all => all.filter({unnamed}).map(one => one.outerHTML)") == [], tab
