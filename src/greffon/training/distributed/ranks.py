"""Several processes that train one model: each computes its rows of every batch, and gradients are averaged.

What a step sees does not depend on the number of processes: every process makes the whole batch of the
step, and takes its rows of it; losses are divided by the real targets of the whole batch.

Each process holds a copy of the model (DDP) or a shard of it (FSDP2). CPUs communicate through gloo, GPUs
through NCCL, each process on the GPU of its local rank.
Untested so far, for want of machines: NCCL, and more than one machine.
"""

import atexit
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from greffon.core.console import say
from greffon.core.device import DEVICE, asked_device
from greffon.core.errors import ToldError, UserError, setting
from greffon.nn.blocks import Block, CrossBlock
from greffon.nn.model import Model
from greffon.objectives.batch import Batch
from greffon.training.distributed.base import PeerLostError, ProcessGroup

T = TypeVar("T")

PATIENCE = timedelta(days=1)
"""Time that the others wait while the main process reads text, evaluates or saves."""
PARENT = "GREFFON_PARENT"
"""Environment variable of processes that `--processes` has started: the parent reports their errors."""


class _Inside(nn.Module):
    """The module that DDP and FSDP wrap: all work with the model happens in its forward pass."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, work: Callable[[Model], T]) -> T:
        return work(self.model)


class TorchProcessGroup(ProcessGroup):
    """The group that a launcher has started: this process is one of `size`."""

    def __init__(self, fsdp: bool) -> None:
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.fsdp = fsdp
        self.copies = 1 if fsdp else int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self.device = _device()
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        store, _, _ = next(iter(rendezvous("env://")))
        # The launcher's store outlives a restart, with all keys of the processes before.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self.store = attempt_store(store, attempt)
        self.lasting = _part_of(store, "lasting")
        backend = "gloo" if self.device.type == "cpu" else "cpu:gloo,cuda:nccl"
        dist.init_process_group(backend, store=self.store, rank=self.rank, world_size=self.size)
        atexit.register(dist.destroy_process_group)
        self.control = dist.new_group(backend="gloo", timeout=PATIENCE)
        self._wrapped: Any = None  # DDP, or an FSDPModule

    @property
    def holds_lock(self) -> bool:
        """Whether this process locks the directory."""
        return self.is_main and PARENT not in os.environ

    # -- the model ---------------------------------------------------------------------------

    def to_device(self, model: Model) -> None:
        """Put the model on this process's device: a copy of it, or a shard."""
        self.set_precision(model, self.device)
        inside = _Inside(model)
        if not self.fsdp:
            model.to(self.device)
            # Tables of positions grow with the texts that a process has met; they are not weights.
            self._wrapped = DistributedDataParallel(inside, forward_sync_buffers=False, gradient_as_bucket_view=True)
            return
        from torch.distributed.fsdp import fully_shard  # slow to import, and few need it

        mesh = init_device_mesh(self.device.type, (self.size,))
        for module in model.modules():
            # A block that reads a source is not always entered by its forward pass: it stays with the rest.
            if isinstance(module, Block) and not isinstance(module, CrossBlock):
                fully_shard(module, mesh=mesh)
        self._wrapped = fully_shard(inside, mesh=mesh)

    def forward(self, model: Model, work: Callable[[Model], T], *, last: bool = True) -> T:
        """Do a forward pass through the wrapper of DDP or FSDP."""
        waiting: Any = nullcontext()
        if self.fsdp:
            self._wrapped.set_requires_gradient_sync(last)
        elif not last:
            waiting = self._wrapped.no_sync()
        with waiting, _detecting_lost_peers():
            made: T = self._wrapped(work)
        return made

    def score(self, model: Model, evaluate: Callable[[Model], T]) -> T:
        """Let the main process evaluate while the others wait; a sharded model needs all of them."""
        scores: Any = None
        if self.fsdp:
            with torch.no_grad():
                scores = self.forward(model, evaluate)
            self._wrapped.reshard()
        elif self.is_main:
            scores = evaluate(model)
        found: T = self.broadcast(scores)
        return found

    def shard_batch(self, batch: Batch) -> Batch:
        """Return this process's rows of a batch."""
        return batch.part(self.rank, self.size)

    # -- communication -----------------------------------------------------------------------

    def all_reduce(self, *numbers: float) -> tuple[float, ...]:
        """Sum numbers over all processes."""
        sums = torch.tensor(numbers, dtype=torch.float64)
        with _detecting_lost_peers():
            dist.all_reduce(sums, group=self.control)
        return tuple(sums.tolist())

    def sum_rows(self, rows: Tensor, first: int, count: int) -> Tensor:
        """Put the rows of all processes together: each adds its own to zeros, which is exact."""
        whole = rows.new_zeros(count, *rows.shape[1:])
        whole[first : first + len(rows)] = rows
        with _detecting_lost_peers():
            dist.all_reduce(whole)
        return whole

    def any_rank(self, *flags: bool) -> tuple[bool, ...]:
        """Return for each flag whether it is set in any process; all processes wait for each other here."""
        return tuple(count > 0 for count in self.all_reduce(*(float(flag) for flag in flags), 0.0))[: len(flags)]

    def broadcast(self, value: T) -> T:
        """Return the main process's value, sent as JSON."""
        sent = bytearray(json.dumps(value).encode()) if self.is_main else bytearray()
        length = torch.tensor([len(sent)])
        with _detecting_lost_peers():
            dist.broadcast(length, 0, group=self.control)
            content = torch.frombuffer(sent, dtype=torch.uint8) if sent else torch.empty(int(length), dtype=torch.uint8)
            dist.broadcast(content, 0, group=self.control)
        received: T = json.loads(bytes(content.tolist()))
        return received

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Let the main process run the body alone, then the others; if it fails, they end with it."""
        if not self.is_main:
            if (code := self.broadcast(0)) != 0:
                raise ToldError(code)
            yield
            return
        try:
            yield
        except BaseException as problem:
            with suppress(PeerLostError):
                self.broadcast(130 if isinstance(problem, KeyboardInterrupt) else 1)
            raise
        self.broadcast(0)

    @contextmanager
    def report_once(self, how: str) -> Iterator[None]:
        """Let the first process that fails report why, or its parent; the others end silently."""
        try:
            yield
        except (UserError, PeerLostError, RuntimeError) as problem:
            mistake = isinstance(problem, UserError)
            if not mistake and not isinstance(problem, PeerLostError) and not _is_lost(problem):
                raise
            if not self._is_first():
                raise ToldError(1) from None
            if PARENT in os.environ:
                if mistake:
                    self.store.set("sentence", problem.args[0])  # as it is: the parent names settings for its reader
                raise ToldError(1) from None
            sentence = problem.args[0] if mistake else f"another process of this training has gone; go on with `{how}`"
            if not self.is_main:
                say(f"greffon: process {self.rank}: {UserError(sentence).on_command_line()}")
                raise ToldError(1) from None
            raise UserError(sentence) from None
        except KeyboardInterrupt:
            if PARENT in os.environ or not self.is_main:
                raise ToldError(130) from None
            raise

    def _is_first(self) -> bool:
        """Whether no other process has failed before: later errors are consequences of the first."""
        try:
            return bool(self.store.add("failed", 1) == 1)
        except RuntimeError:  # the store went with the process that held it
            return True

    # -- from one attempt to the next ----------------------------------------------------------

    def note(self, name: str, value: str) -> None:
        """Store a value in the launcher's store."""
        self.lasting.set(name, value)

    def noted(self, name: str) -> str | None:
        """Return the value that an earlier attempt of the same launch has stored."""
        return self.lasting.get(name).decode() if self.lasting.check([name]) else None

    def environment(self) -> Mapping[str, int | str]:
        """Return the number of processes, which decides the order of sums, and the device."""
        return {"processes": self.size, "device": self.device.type, "precision": self.precision}


def attempt_store(store: Any, attempt: str = "0") -> Any:
    """Return the keys of a launcher's store that belong to one attempt: stale ones would make the next hang."""
    return _part_of(store, f"attempt-{attempt}")


def _part_of(store: Any, name: str) -> Any:
    return dist.PrefixStore(f"greffon/{name}", store)  # type: ignore[attr-defined]


def _device() -> torch.device:
    asked = os.environ.get(DEVICE)
    if asked == "mps":
        raise UserError(f"several processes compute on CPUs or CUDA GPUs; leave out {setting('device', 'mps')}")
    if asked == "cpu" or not torch.cuda.is_available():
        return asked_device() if asked else torch.device("cpu")
    there, wanted = torch.cuda.device_count(), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if wanted > there:
        raise UserError(
            f"{wanted} processes were started on this machine, which has {there} GPUs; start one for each GPU, or set "
            'CUDA_VISIBLE_DEVICES="" to train on CPUs'
        )
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


@contextmanager
def _detecting_lost_peers() -> Iterator[None]:
    """Raise `PeerLostError` for an error that means that another process has ended."""
    try:
        yield
    except RuntimeError as problem:
        if _is_lost(problem):
            raise PeerLostError from problem
        raise


def _is_lost(problem: BaseException) -> bool:
    """Whether an error means that another process has ended; gloo has no exception class for it."""
    return isinstance(problem, dist.DistError) or any(word in str(problem).lower() for word in ("gloo", "nccl"))
