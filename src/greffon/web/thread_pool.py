"""The threads that models run in, with a bounded queue.

The event loop only waits for results. When a client disconnects, its work is cancelled and stops at its
next step.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from starlette.types import Receive

from greffon.core.cancellation import Cancelled, cancellable, raise_if_cancelled

Result = TypeVar("Result")


class Busy(Exception):  # noqa: N818 - what it is
    """The queue is full."""


class Dropped(Exception):  # noqa: N818 - what it is
    """The client has disconnected."""


class Work(Generic[Result]):
    """A job in a thread that yields results: `async for result in work`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._made: asyncio.Queue[tuple[bool, Any]] = asyncio.Queue()
        self._called_off = threading.Event()
        self._future: Future[None] | None = None

    def start(
        self, threads: ThreadPoolExecutor, job: Callable[[], Iterable[Result]], leave: Callable[[], None]
    ) -> None:
        """Queue the job for a thread; `leave` is called in the event loop once it is over."""

        def labour() -> None:
            with cancellable(self._called_off):
                for result in job():
                    self._tell(self._made.put_nowait, (True, result))
                    raise_if_cancelled()

        def over(future: Future[None]) -> None:
            problem = Cancelled() if future.cancelled() else future.exception()
            self._tell(self._made.put_nowait, (False, problem))
            self._tell(leave)

        self._future = threads.submit(labour)
        self._future.add_done_callback(over)

    def _tell(self, what: Callable[..., None], *given: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(what, *given)

    def call_off(self) -> None:
        """Cancel the job: it stops at its next step, or never starts."""
        self._called_off.set()
        if self._future is not None:
            self._future.cancel()

    async def __aiter__(self) -> AsyncIterator[Result]:
        while True:
            more, found = await self._made.get()
            if more:
                yield found
            elif found is None:
                return
            else:
                raise found


class ThreadPool:
    """A pool of `at_once` threads, with a queue of `waiting` more jobs."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="greffon-model")
        self._room = at_once + waiting
        self._inside: set[Work[Any]] = set()

    @property
    def inside(self) -> int:
        """Number of jobs that are running or waiting."""
        return len(self._inside)

    def begin(self, job: Callable[[], Iterable[Result]]) -> Work[Result]:
        """Start a job, or raise `Busy`."""
        if len(self._inside) >= self._room:
            raise Busy
        work: Work[Result] = Work()
        self._inside.add(work)
        work.start(self._threads, job, lambda: self._inside.discard(work))
        return work

    async def do(self, job: Callable[[], Result], receive: Receive) -> Result:
        """Return the result of a job, or raise `Dropped` as soon as the client has disconnected."""
        work = self.begin(lambda: [job()])
        async with gone(receive) as left:
            answer = asyncio.ensure_future(_only(work))
            try:
                await asyncio.wait({answer, left}, return_when=asyncio.FIRST_COMPLETED)
                if not answer.done():
                    raise Dropped
                return answer.result()
            finally:
                work.call_off()
                answer.cancel()

    def close(self) -> None:
        """Cancel all jobs, and let the threads end."""
        for work in list(self._inside):
            work.call_off()
        self._threads.shutdown(wait=False, cancel_futures=True)


async def _only(work: Work[Result]) -> Result:
    async for result in work:
        return result
    raise AssertionError("a job has one result")


@contextlib.asynccontextmanager
async def gone(receive: Receive) -> AsyncIterator[asyncio.Task[None]]:
    """Yield a task that ends when the client disconnects; use it after the request has been read."""

    async def until() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    watching = asyncio.create_task(until())
    try:
        yield watching
    finally:
        watching.cancel()
