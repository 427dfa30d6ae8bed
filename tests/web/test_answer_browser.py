"""The tab Answer in a real browser: marked spans, bars of labels, a score in its range, and two boxes for pairs."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect, sync_playwright
from serving import running
from tiny import TinyRuns

import greffon
from greffon.runs.run import Run

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser: apt-get install chromium")

ANIMALS = ("chat", "chien", "vache", "oiseau")
TEXT = "😀 le chat dort, la vache mange"  # the first sign has two units in a browser, and one in Python


@pytest.fixture(scope="module")
def runs(tiny: TinyRuns, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("answers")
    tagged = [[("le", "O"), (a, "B-PET"), ("mange", "O"), ("la", "O"), (b, "B-PET")] for a in ANIMALS for b in ANIMALS]
    files = {
        "spans.conll": "\n\n".join("\n".join(" ".join(pair) for pair in sentence) for sentence in tagged) + "\n",
        "labels.csv": "text,labels\n" + "".join(f"le {a} et le {b},{a}|{b}\n" for a in ANIMALS for b in ANIMALS),
        "scores.csv": "text,score\n" + "".join(f"{'le chat ' * n}dort,{10 * n}\n" for n in range(1, 9)),
        "pairs.csv": "text_a,text_b,label\n"
        + "".join(f"le {a},un {b},{'same' if a == b else 'other'}\n" for a in ANIMALS for b in ANIMALS),
    }
    made = {}
    for name, content in files.items():
        file = folder / name
        file.write_text(content, encoding="utf-8")
        settings = {"epochs": 12, "learning_rate": 0.01, "batch_size": 8, "quiet": True}
        made[file.stem] = greffon.finetune(tiny.causal, train=file, valid=file, out=folder / file.stem, **settings)
    return made


@pytest.fixture(scope="module")
def page(runs: dict[str, Run]) -> Iterator[Page]:
    troubles: list[str] = []
    with running([run.path for run in runs.values()]) as server, sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 360, "height": 740})
        page.set_default_timeout(60_000)
        expect.set_options(timeout=60_000)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.goto(f"{server.url}/#answer")
        yield page
        browser.close()
    assert troubles == []


def ask(page: Page, run: str, text: str, second: str | None = None) -> None:
    page.get_by_label("Run", exact=True).select_option(run)
    page.get_by_label("Text", exact=True).fill(text)
    box = page.get_by_label("Second text")
    if second is None:
        expect(box).to_be_hidden()
    else:
        box.fill(second)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("status")).to_have_text("Done.")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_spans_are_marked_in_the_text_and_listed(page: Page, runs: dict[str, Run]) -> None:
    (found,) = greffon.classify(runs["spans"], TEXT)
    assert found.spans, "this test needs a span"
    ask(page, "spans", TEXT)
    expect(page.locator("mark")).to_have_text([span.text for span in found.spans])
    expect(page.locator(".answer .text")).to_have_text(TEXT)
    expect(page.locator(".answer .legend li")).to_have_text(sorted({span.label for span in found.spans}))
    rows = page.locator(".answer tbody tr")
    expect(rows).to_have_count(len(found.spans))
    expect(rows.first).to_contain_text(f"{found.spans[0].probability:.2f}")


def test_several_labels_are_bars_and_the_given_ones_stand_out(page: Page, runs: dict[str, Run]) -> None:
    text = "le chat et le chien"
    (found,) = greffon.classify(runs["labels"], text)
    ask(page, "labels", text)
    expect(page.locator(".answer .verdict")).to_have_text(", ".join(found.labels) or "No label")
    order = sorted(found.probabilities, key=lambda label: -found.probabilities[label])
    expect(page.locator(".answer .bar .name")).to_have_text(order)
    expect(page.locator(".answer .bar.mine .name")).to_have_text([label for label in order if label in found.labels])


def test_a_score_is_shown_in_the_range_of_the_training_scores(page: Page, runs: dict[str, Run]) -> None:
    text = "le chat le chat dort"
    (found,) = greffon.classify(runs["scores"], text)
    ask(page, "scores", text)
    expect(page.locator(".answer .verdict")).to_have_text(f"{float(f'{found.score:.4g}'):g}")
    mean, deviation = runs["scores"].recipe.score_scale
    meter = page.locator(".answer meter")
    low, high = (float(meter.get_attribute(edge) or "nan") for edge in ("min", "max"))
    assert (low, high) == pytest.approx((mean - 2 * deviation, mean + 2 * deviation))
    assert float(meter.get_attribute("value") or "nan") == pytest.approx(min(high, max(low, found.score)))


def test_a_pair_has_two_boxes(page: Page, runs: dict[str, Run]) -> None:
    (found,) = greffon.classify(runs["pairs"], [("le chat", "un chat")])
    ask(page, "pairs", "le chat", "un chat")
    expect(page.locator(".answer .verdict")).to_have_text(found.label)
    expect(page.locator(".answer .bar")).to_have_count(2)
