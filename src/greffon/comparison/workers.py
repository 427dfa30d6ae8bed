"""Carry out the tasks of a comparison in processes of this machine, several at a time."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process

import torch

from greffon.comparison.task import Task, execute
from greffon.core.errors import UserError, setting
from greffon.core.machine import available_cores
from greffon.training.stop import Interrupted


class _Worker:
    """State of a process that trains arms; after a signal to stop, it starts no other training."""

    busy = stopped = False

    @classmethod
    def prepare(cls) -> None:
        """Set up the process."""
        threading.Thread(target=cls.end_with_parent, daemon=True).start()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, cls.stop)

    @staticmethod
    def end_with_parent() -> None:
        """Exit at once if the parent was killed: nobody would read the result, and the arm would stay locked."""
        parent = parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    @classmethod
    def stop(cls, number: int, frame: object) -> None:
        """Handle SIGINT and SIGTERM; the training loop replaces this handler by its own while it runs."""
        cls.stopped = True
        if cls.busy:
            raise KeyboardInterrupt


def carry_out(path: str, threads: int) -> bool:
    """Carry out one task with so many threads; return False if it was interrupted. Runs in a worker process."""
    if _Worker.stopped:
        return False
    _Worker.busy = True
    try:
        execute(path, threads)
    except KeyboardInterrupt:
        _Worker.stopped = True
        return False
    finally:
        _Worker.busy = False
    return True


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Ignore SIGINT and defer SIGTERM, so that processes started here begin with SIGINT ignored.

    They install their own handlers when they are ready.
    """
    received: list[int] = []
    try:
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        terminate = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, terminate)
        for number in received:
            signal.raise_signal(number)


@contextmanager
def _signals_ignored() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM: the work is being stopped already."""
    try:
        before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def shared_out(tasks: Sequence[Task], jobs: int | None, tell: Callable[[str], None] | None = None) -> tuple[int, int]:
    """Return how many tasks are carried out at a time, and the threads of each.

    By all tasks, not by those left: one that is resumed must have the threads that it began with. With `tell`, it is
    this machine that carries them out: no more of them than it has cores.
    """
    cores = available_cores()
    count = max(1, min(jobs or cores, len(tasks)))
    if tell and count > cores:
        tell(
            f"{cores} at a time: this machine gives greffon {cores} core{'s' * (cores != 1)}, fewer than "
            f"{setting('jobs', jobs)}"
        )
        count = cores
    return count, max(1, min(cores // count, torch.get_num_threads()))


def execute_all(tasks: Sequence[Task], jobs: int | None, tell: Callable[[str], None]) -> None:
    """Carry out the tasks that are not finished, `jobs` of them at a time (default: one for each core)."""
    waiting = [task for task in tasks if not task.finished]
    if len(waiting) < len(tasks):
        tell(f"{len(tasks) - len(waiting)} of {len(tasks)} trainings are finished already")
    if not waiting:
        return
    jobs, threads = shared_out(tasks, jobs, tell)
    jobs = min(jobs, len(waiting))
    tell(
        f"{len(waiting)} training{'s' * (len(waiting) != 1)}, {jobs} at a time; "
        "how long it takes is told after the first"
    )
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_Worker.prepare) as pool:
        try:
            _execute_in(pool, waiting, threads, tell)
        except KeyboardInterrupt as problem:
            tell("stopping: what runs is being saved")
            with _signals_ignored():  # a second signal would leave the workers alone, and the end waiting for them
                for process in active_children():  # those that have not received the signal themselves
                    process.terminate()
                pool.shutdown(cancel_futures=True)
            number = getattr(problem, "signal", signal.SIGINT)
            raise Interrupted("the same command; finished trainings are kept", number) from None
        except BrokenProcessPool:
            pool.shutdown(cancel_futures=True)
            raise UserError(
                "a training was killed from outside, most likely for want of memory; "
                f"give fewer {setting('jobs')}, and repeat the command: finished trainings are kept, begun ones go on"
            ) from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _execute_in(pool: ProcessPoolExecutor, waiting: Sequence[Task], threads: int, tell: Callable[[str], None]) -> None:
    """Carry out tasks in the processes of a pool, and tell the outcome and the time left after each."""
    started = time.monotonic()
    with _signals_deferred():
        futures = {pool.submit(carry_out, str(task.path), threads): task for task in waiting}
    for done, future in enumerate(as_completed(futures), start=1):
        task = futures[future]
        if not future.result():
            raise KeyboardInterrupt
        left = (time.monotonic() - started) / done * (len(waiting) - done)
        tell(f"{task.name}: {task.outcome} · {done}/{len(waiting)}, {left / 60:.1f} min left")
