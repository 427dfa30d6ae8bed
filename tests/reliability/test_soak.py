"""RELIABILITY.md shows the figures of the last soak, and nothing else."""

import json

from soak import FIGURES, MARKS, PAGE, table


def test_the_page_shows_the_figures_of_the_last_soak() -> None:
    known = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    shown = PAGE.read_text(encoding="utf-8").partition(MARKS[0])[2].partition(MARKS[1])[0]
    assert shown.strip() == table(known).strip()
