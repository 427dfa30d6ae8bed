"""`python -m bench [--only NAME …] [--rounds N] [--quick]`: hold the contests, write results and the table.

Results of another machine are not mixed with new ones: they are dropped. Those of other versions are kept, with these,
until `--only` repeats them.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from bench.contests import CONTESTS
from bench.harness import ROOT, Failed, hold
from bench.machine import facts
from bench.report import clear_absent, load, save, table, write_page

RESULTS, PAGE, DATA = ROOT / "bench" / "results.json", ROOT / "BENCHMARKS.md", ROOT / "bench" / "data"


def main(words: list[str] | None = None) -> int:
    """Hold the contests; a contest that fails does not take the others with it, but the exit code says so."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(CONTESTS), default=list(CONTESTS), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round, no page: does everything work?")
    parser.add_argument("--results", type=Path, help=f"default: {RESULTS.relative_to(ROOT)}; with --quick, none")
    parser.add_argument("--page", type=Path, help=f"default: {PAGE.relative_to(ROOT)}; with --quick, none")
    parser.add_argument("--data", type=Path, default=DATA, help="where the files that contestants read are kept")
    args = parser.parse_args(words)
    rounds = min(args.rounds, 1) if args.quick else args.rounds
    if rounds < 1 or args.threads < 1:
        parser.error("--rounds and --threads are 1 or more")
    results_file = args.results or (None if args.quick else RESULTS)
    page = args.page or (None if args.quick else PAGE)
    folder = args.data.resolve()
    folder.mkdir(parents=True, exist_ok=True)

    began = time.monotonic()
    machine = facts(args.threads, folder)
    results = load(results_file, machine)
    results.setdefault("contests", {})
    results.pop("minutes", None)  # of a run of all contests, which these may replace in part
    if page:
        clear_absent(page, results)
    failed = []
    for name in args.only:
        started = time.monotonic()
        print(f"{name} …", flush=True)
        try:
            found = hold(
                CONTESTS[name],
                folder,
                rounds=rounds,
                threads=args.threads,
                gigaflops=machine["sgemm_gigaflops"],
                quick=args.quick,
            )
        except Failed as reason:
            failed.append(name)
            print(f"  {reason}", file=sys.stderr, flush=True)
            continue
        for contestant, entry in found["contestants"].items():
            against = f", {entry['times']['median']:.2f} ×" if "times" in entry else ""
            print(f"  {contestant}: {entry['median']:,.4g} {found['unit']}{against}", flush=True)
        print(f"  {time.monotonic() - started:.0f} s", flush=True)
        results["contests"][name] = found
        _write(results, results_file, page)
    minutes = (time.monotonic() - began) / 60
    if args.only == list(CONTESTS) and not failed:
        results["minutes"] = minutes
    _write(results, results_file, page)
    print(f"{minutes:.1f} minutes; {'failed: ' + ', '.join(failed) if failed else 'all held'}")
    return 1 if failed else 0


def _write(results: dict[str, Any], file: Path | None, page: Path | None) -> None:
    if file:
        save(file, results)
    if page:
        write_page(page, {"bench": table(results, CONTESTS)})


if __name__ == "__main__":
    sys.exit(main())
