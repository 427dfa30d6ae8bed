"""The long tests of reliability, at full length: `make soak`. Figures go to docs/soak.json, part by part.

`soak.py kills fuzz` runs only these parts; `--table` only writes the table of RELIABILITY.md anew.
"""

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FIGURES = HERE.parents[1] / "docs" / "soak.json"
PAGE = HERE.parents[1] / "RELIABILITY.md"
MARKS = ("<!-- soak: written by make soak -->", "<!-- end of soak -->")
EMPTY: dict[str, Any] = {"figures": {}}
MUTATIONS = {
    "recipe": 20_000, "manifest": 20_000, "weights": 20_000, "tokenizer": 20_000, "text": 20_000, "csv": 20_000,
    "jsonl": 20_000, "foreign tokenizer": 5_000, "checkpoint state": 5_000, "checkpoint tensors": 5_000,
    "metrics": 5_000, "encoder config": 1_000, "decoder config": 1_000, "classifier config": 1_000,
    "weight index": 1_000, "foreign weights": 1_000, "tokenizer.json": 1_000, "tokenizer config": 1_000,
    "modules": 1_000, "pooling": 1_000, "generation config": 1_000,
}  # fmt: skip
ORDEALS = [
    ("causal", 1, ("tokenizer", "save", "evaluation", "weights", "save", "")),
    ("causal", 2, ("tokenizer", "tokenizer", "", "save", "", "")),
    ("masked", 1, ("tokenizer", "evaluation", "save", "", "")),
    ("seq2seq", 1, ("weights", "save", "evaluation", "", "")),
    ("finetune", 1, ("save", "", "evaluation", "weights", "")),
    ("finetune", 2, ("", "", "", "")),
]
DISKS = tuple(range(40, 400, 30))
"""Sizes in kilobytes on which a training is let run full: from too small for a tokenizer to almost enough."""


def kills(folder: Path) -> dict[str, Any]:
    """Kill trainings of every kind, several times each."""
    from kills import Stage

    stage = Stage(folder / "kills")
    stage.reference("causal")
    found = [stage.ordeal(kind, len(places), seed, places) for kind, seed, places in ORDEALS]
    found.append(stage.comparison(kills=3, seed=1))
    kinds = {one.kind: [o for o in found if o.kind == one.kind] for one in found}
    return {
        "by_kind": {
            kind: {
                "kills": [kill for one in several for kill in one.kills],
                "steps_replayed": sum(one.replayed for one in several),
                "mismatches": [difference for one in several for difference in one.mismatches],
            }
            for kind, several in kinds.items()
        },
    }


def disks(folder: Path) -> dict[str, Any]:
    """Train on disks that are too small, then give them room; compare with a training that had room from the start."""
    from kills import Stage, differences

    from greffon.runs.run import Run

    stage = Stage(folder / "disks")
    whole, _ = stage.reference("causal")
    counts = {"disks": 0, "run_full": 0, "refused_in_a_sentence": 0, "sound_after": 0, "mismatches": 0}
    for kilobytes in DISKS:
        small = folder / f"disk-{kilobytes}"
        small.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "greffon-soak", str(small)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            return {"skipped": f"no small disk can be mounted here: {done.stderr.strip()}"}
        try:
            counts["disks"] += 1
            out, said = small / "run", folder / "disks" / "said.txt"
            said.write_text("")
            words = stage.words("causal", out)
            process = stage.start(words)
            process.join()
            told = said.read_text()
            if process.exitcode:
                counts["run_full"] += 1
                counts["refused_in_a_sentence"] += process.exitcode == 1 and "No space left" in told.splitlines()[-1]
                assert "Traceback" not in told, told
            if (out / "recipe.json").exists():
                run = Run.open(out)
                if run.has_model:
                    run.load_model()
                run.load_checkpoint()
            counts["sound_after"] += 1
            subprocess.run(["mount", "-o", "remount,size=8m", str(small)], check=True)
            if not (out / "finished").exists():
                stage.finish(["resume", str(out)] if (out / "recipe.json").exists() else words)
            counts["mismatches"] += len(differences(whole, Run.open(out)))
        finally:
            subprocess.run(["umount", "-l", str(small)], check=True)
    return counts


def fuzzing(folder: Path) -> dict[str, Any]:
    """Mutate every kind of file; each kind in a process of its own."""
    found = {}
    for name, cases in MUTATIONS.items():
        words = [sys.executable, str(HERE / "fuzz.py"), name, "--cases", str(cases), "--seed", "7"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            found[name] = {"cases": cases, "failures": [done.stderr[-1000:]]}
        else:
            found[name] = {k: v for k, v in json.loads(done.stdout).items() if k != "target"}
        print(f"fuzz, {name}: {found[name]}"[:300], file=sys.stderr, flush=True)
    return found


def hostile(folder: Path) -> dict[str, Any]:
    """Read files made to harm, at full size."""
    from hostile import files, measure

    found = {}
    for title, (name, write, wanted) in files(100).items():
        one = measure(name, write, folder)
        found[title] = {
            "right": not one["crashed"] and wanted in str(one["said"]),
            "seconds": one["seconds"],
            "megabytes": one["megabytes"],
        }
    return found


PARTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "kills": kills,
    "disks": disks,
    "fuzz": fuzzing,
    "hostile": hostile,
}
_writing = threading.Lock()


def carry_out(name: str) -> None:
    """Run one part and keep its figures."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        figures = PARTS[name](Path(folder))
    figures = {"minutes": round((time.monotonic() - started) / 60, 1), "figures": figures}
    with _writing:
        known = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
        known[name] = figures
        import torch

        known["machine"] = {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "system": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
        }
        FIGURES.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
    print(f"{name}: {figures['minutes']} minutes", file=sys.stderr, flush=True)


def table(known: dict[str, Any]) -> str:
    """Lay the figures out as RELIABILITY.md shows them; a part that has not run is named as such."""
    lines = ["| what was done | how often | what came of it |", "| --- | --- | --- |"]
    lines += [f"| {name} | not run yet | |" for name in PARTS if name not in known]
    for kind, found in known.get("kills", EMPTY)["figures"].get("by_kind", {}).items():
        inside = sum("inside" in kill for kill in found["kills"])
        often = f"{len(found['kills'])} kills, {inside} of them inside a save, an evaluation or the tokenizer"
        came = f"{found['steps_replayed']} lost steps replayed, {len(found['mismatches'])} mismatches"
        lines.append(f"| {kind} killed, and gone on | {often} | {came} |")
    disk = known.get("disks", EMPTY)["figures"]
    if "skipped" in disk:
        lines.append(f"| disks too small | 0 | skipped: {disk['skipped']} |")
    elif disk:
        lines.append(
            f"| disks too small, then enlarged | {disk['disks']} sizes, {disk['run_full']} of them ran full | "
            f"{disk['refused_in_a_sentence']} said so in a sentence, {disk['sound_after']} left a sound run, "
            f"{disk['mismatches']} mismatches after going on |"
        )
    for name, found in known.get("fuzz", EMPTY)["figures"].items():
        came = f"{found.get('loaded', 0):,} loaded right, {found.get('refused', 0):,} refused"
        wrong = f"{len(found['failures'])} failures; slowest {found.get('slowest_seconds', 0):.2f} s"
        lines.append(f"| {name}, mutated | {found['cases']:,} | {came}, {wrong} |")
    for title, found in known.get("hostile", EMPTY)["figures"].items():
        right = "as it should" if found["right"] else "WRONG"
        lines.append(f"| {title} | 1 | {right}, {found['megabytes']} MB at the peak, {found['seconds']} s |")
    return "\n".join(lines)


def write_table() -> None:
    """Put the figures into RELIABILITY.md."""
    before, mark, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    assert mark
    assert end
    known = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    PAGE.write_text(f"{before}{mark}\n{table(known)}\n{end}{after}", encoding="utf-8")


def failures(known: dict[str, Any]) -> int:
    """Count what went wrong in all parts."""
    return (
        sum(len(found["mismatches"]) for found in known["kills"]["figures"]["by_kind"].values())
        + known["disks"]["figures"].get("mismatches", 0)
        + sum(len(found["failures"]) for found in known["fuzz"]["figures"].values())
        + sum(not found["right"] for found in known["hostile"]["figures"].values())
    )


def main() -> None:
    """Run the parts, two at a time, and put their figures into RELIABILITY.md."""
    if sys.argv[1:] == ["--table"]:
        write_table()
        return
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(carry_out, sys.argv[1:] or list(PARTS)))
    write_table()
    known = json.loads(FIGURES.read_text())
    sys.exit(PARTS.keys() <= known.keys() and failures(known) > 0)


if __name__ == "__main__":
    main()
