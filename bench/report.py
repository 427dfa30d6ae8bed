"""From results to the tables of BENCHMARKS.md; what stands between its markers is written here only."""

import json
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.contest import SECONDS, Contest, times_as_fast
from bench.machine import same, versions
from greffon.core.files import write_atomically

NOT_YET = "*Not measured yet.*"
PARTS = {"contests": "bench", "learning": "learning", "scaling": "scaling", "growth": "growth"}
"""The parts of the results, and the sections of the page that show them."""
OLDER = "older"
"""The part with the versions of what was measured before they changed, by its contest or part."""


def put_between(page: str, name: str, text: str) -> str:
    """Replace what stands between two markers of a page.

    >>> put_between("a <!-- x:start -->old<!-- x:end --> b", "x", "new")
    'a <!-- x:start -->new<!-- x:end --> b'
    """
    start, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
    before, found, rest = page.partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"the page has no markers {start} … {end}")
    return before + start + text + end + after


def write_page(path: Path, sections: Mapping[str, str]) -> None:
    """Fill the sections of a page."""
    page = path.read_text(encoding="utf-8")
    for name, text in sections.items():
        page = put_between(page, name, f"\n{text}\n")
    write_atomically(path, page.encode())


def load(path: Path | None, machine: Mapping[str, Any]) -> dict[str, Any]:
    """Read results to add to; those of another machine are dropped, those of other versions are kept with these."""
    found = _read(path)
    before = found.get("machine", machine)
    if not same(before, machine):
        print(f"{path}: results of another machine are dropped", file=sys.stderr, flush=True)
        return {"machine": machine}
    had = {**dict.fromkeys(_measured(found), versions(before)), **found.pop(OLDER, {})}
    older = {name: known for name, known in had.items() if changed(known, versions(machine))}
    return {**found, "machine": machine, **({OLDER: older} if older else {})}


def _read(path: Path | None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path and path.is_file() else {}
    return found


def _measured(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was measured, by the name of its contest or of its part."""
    parts = {name: results[name] for name in PARTS if name != "contests" and name in results}
    return {**results.get("contests", {}), **parts}


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return the versions that were others.

    >>> changed({"torch": "2.13.0", "numpy": "2.4.6"}, {"torch": "2.13.1", "numpy": "2.4.6", "scipy": "1.9"})
    {'torch': '2.13.0'}
    """
    return {name: version for name, version in before.items() if now.get(name) != version}


def clear_absent(path: Path, results: Mapping[str, Any]) -> None:
    """Empty the sections of a page whose results are not there: it shows nothing that they do not hold."""
    write_page(path, {section: NOT_YET for part, section in PARTS.items() if part not in results})


def save(path: Path, results: Mapping[str, Any]) -> None:
    """Write results, with the digits that mean something; what differs from the file has the versions of now."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new, old = rounded(results), _measured(_read(path))
    measured = _measured(new)
    older = {name: had for name, had in new.pop(OLDER, {}).items() if measured[name] == old.get(name)}
    new |= {OLDER: older} if older else {}
    write_atomically(path, (json.dumps(new, indent=1, ensure_ascii=False) + "\n").encode())


def rounded(value: Any) -> Any:
    """Keep five significant digits of every number."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, Mapping):
        return {name: rounded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return value


def number(value: float) -> str:
    """Write a number with three digits.

    >>> [number(value) for value in (1234.5, 123.4, 12.34, 1.234, 0.1234)]
    ['1,230', '123', '12.3', '1.23', '0.123']
    """
    short = float(f"{value:.3g}")
    if short >= 100:
        return f"{short:,.0f}"
    return f"{short:.1f}" if short >= 10 else f"{short:.2f}" if short >= 1 else f"{short:.3f}"


def machine_line(machine: Mapping[str, Any]) -> str:
    """Say in one sentence where the figures come from."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"Measured on {machine['cores']} cores ({machine['processor']}), {machine['threads']} threads, "
        f"fastest product {number(machine['sgemm_gigaflops'])} GFLOP/s; Python {machine['python']}, {versions}."
    )


def table(results: Mapping[str, Any], contests: Mapping[str, Contest]) -> str:
    """All contests as one Markdown table."""
    known = [name for name in contests if name in results.get("contests", {})]
    if not known:
        return NOT_YET
    lines = [
        "| contest | contestant | median (range) | Greffon (first row) is | goal | peak memory | beside |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in known:
        lines += rows(results["contests"][name], contests[name])
    before = [
        f"{name} ({', '.join(map(' '.join, changed(had, versions(results['machine'])).items()))})"
        for name, had in results.get(OLDER, {}).items()
    ]
    held = {len(one["rounds"]) for name in known for one in results["contests"][name]["contestants"].values()}
    rounds = " or ".join(map(str, sorted(held)))
    note = f"{rounds} rounds; the range is of all rounds, and ratios are taken round by round."
    if before:
        note += f" Measured with other versions: {', '.join(before)}."
    if "minutes" in results:
        note += f" One run of all contests: {results['minutes']:.0f} minutes."
    return "\n".join([machine_line(results["machine"]) + " " + note, "", *lines])


def rows(found: Mapping[str, Any], contest: Contest) -> list[str]:
    """The rows of one contest."""
    lines = []
    unit = "s" if contest.unit == SECONDS else contest.unit
    for name, entry in found["contestants"].items():
        title = contest.title if name == contest.ours else ""
        span = f"{number(entry['median'])} {unit} ({number(entry['low'])}–{number(entry['high'])})"
        times = entry.get("times")
        ratio = f"{times['median']:.2f} × ({times['low']:.2f}–{times['high']:.2f})" if times else ""
        cells = [title, name, span, ratio, "; ".join(goals(name, found, contest)), f"{entry['peak_gigabytes']:.2f} GB"]
        lines.append("| " + " | ".join([*cells, "; ".join(beside(entry))]) + " |")
    return lines


def goals(name: str, found: Mapping[str, Any], contest: Contest) -> list[str]:
    """What was aimed for here, and whether it was reached."""

    def said(text: str, reached: bool) -> str:
        return f"{text}: {'reached' if reached else 'not reached'}"

    contestants = found["contestants"]
    entry, lines = contestants[name], []
    for goal in contest.goals:
        aim = f"≥ {goal.times:.2g} ×"
        if goal.by == contest.ours and goal.peer == name:
            lines.append(said(aim, entry["times"]["median"] >= goal.times))
        elif goal.by == name and goal.peer in contestants:
            ratios = times_as_fast(contest.unit, entry["rounds"], contestants[goal.peer]["rounds"])
            times = statistics.median(ratios)
            lines.append(said(f"{times:.2f} × {goal.peer}, {aim}", times >= goal.times))
    if name == contest.ours and contest.most_gigabytes is not None:
        lines.append(said(f"≤ {contest.most_gigabytes:.2f} GB", entry["peak_gigabytes"] <= contest.most_gigabytes))
    if name == contest.ours and contest.most_seconds is not None:
        lines.append(said(f"≤ {number(contest.most_seconds)} s", entry["median"] <= contest.most_seconds))
    return lines


def beside(entry: Mapping[str, Any]) -> list[str]:
    """What else is known of a contestant."""
    names = {
        "share_of_sgemm": "of the fastest product's speed",
        "accuracy": "accuracy",
        "agreement": "of the outputs equal Greffon's",
    }
    facts = [f"{entry[name]:.0%} {text}" for name, text in names.items() if name in entry]
    if "bytes_a_token" in entry:
        facts.append(f"{entry['bytes_a_token']:.2f} bytes a token")
    return facts
