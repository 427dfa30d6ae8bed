"""The thread that fits, assesses and writes tables in the background, so that whoever labels never waits."""

import threading
import time
from dataclasses import replace

from greffon.labelling.desk import Desk
from greffon.labelling.fit import fit
from greffon.labelling.progress import Assessor, Progress, Snapshot, with_estimates
from greffon.labelling.tables import Tables

_SECONDS_BETWEEN = 10.0
"""While labels keep coming, the progress is assessed this often; the probe is fitted again and again."""


class Worker:
    """Refits after each mark; marks that arrive during a fit are taken into account by the next one."""

    def __init__(self, desk: Desk, change: threading.RLock, tables: Tables, aim: float | None) -> None:
        self.desk = desk
        self.progress = Progress()
        self.seconds = 0.0
        """Duration of the last fit and its scores of all texts."""
        self._change = change
        self._tables = tables
        self._assessor = Assessor(desk.heap, desk.answers, aim)
        self._news = threading.Condition()
        self._wanted = self._done = 0
        self._stopped = False
        self._problem: Exception | None = None
        self._assessed = 0.0
        self._thread = threading.Thread(target=self._run, name="greffon-labelling", daemon=True)
        self._thread.start()

    def poke(self) -> None:
        """Say that something was marked; the counts are up to date at once, the rest follows."""
        with self._change:
            self.progress = with_estimates(self._assessor.counts(self._snapshot()), self.progress)
        with self._news:
            self._wanted += 1
            self._news.notify_all()

    def wait(self) -> None:
        """Wait until everything that was marked so far is taken into account."""
        with self._news:
            wanted = self._wanted
            self._news.wait_for(lambda: self._done >= wanted or self._stopped)
            if self._problem is not None:
                raise self._problem

    def stop(self) -> None:
        """End the thread after what it is doing."""
        with self._news:
            self._stopped = True
            self._news.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=30)

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._wanted > self._done or self._stopped)
                if self._stopped:
                    return
                wanted = self._wanted
            try:
                self._work(wanted)
                self._problem = None
            except Exception as problem:  # the thread goes on, whatever one fit has come to
                self._problem = problem  # told to the page and to whoever waits; the labels themselves are safe
                with self._change:
                    self.progress = replace(self.progress, problem=f"{problem}" or type(problem).__name__)
                with self._news:
                    self._done = wanted
                    self._news.notify_all()

    def _work(self, wanted: int) -> None:
        _ = self.desk.heap.moment  # computed once, here, so that no question has to wait for it
        began = time.perf_counter()
        with self._change:
            now = self._snapshot()
        fitted = fit(self.desk.heap, now.training, self.desk.answers)
        self.seconds = time.perf_counter() - began
        with self._change:
            self.desk.fit = fitted
        if self._wanted > wanted and time.monotonic() - self._assessed < _SECONDS_BETWEEN:
            return  # there is more to fit already
        found = self._assessor.assess(now)
        self._assessed = time.monotonic()
        self._tables.write()
        with self._change:
            self.progress = with_estimates(self._assessor.counts(self._snapshot()), found)
        with self._news:
            self._done = wanted
            self._news.notify_all()

    def _snapshot(self) -> Snapshot:
        marks = self.desk.marks
        return Snapshot(
            self.desk.training(),
            self.desk.aside(),
            marks.labels(),
            len(marks.of_kind("skip")),
            len(marks.of_kind("flag")),
            marks.agreement(self.desk.answers.decisions),
        )
