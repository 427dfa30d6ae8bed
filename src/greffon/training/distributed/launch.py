"""Start a training: in this process, as one process of a launcher (torchrun), or in child processes.

    torchrun --nproc-per-node 2 -m greffon pretrain …    each process reads its rank from the environment
    greffon pretrain … --processes 2                     this process starts the others, and reports their errors

All of them call `train`. A launcher may restart all processes after one was lost: the same command then
resumes the run that it began, instead of refusing the directory.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from greffon.core.device import using
from greffon.core.errors import UserError, out_of_range, setting
from greffon.core.machine import available_cores, launched_by_torchrun
from greffon.core.settings import Launch, Machine
from greffon.runs.create import room_for
from greffon.runs.run import SCHEDULE, Run
from greffon.training.distributed.base import SINGLE_PROCESS, PeerLostError, ProcessGroup
from greffon.training.listeners import refuse_missing
from greffon.training.schedule import Schedule, Segment
from greffon.training.stop import Interrupted, Stop
from greffon.training.train import train

GRACE_SECONDS = 15.0
"""Time that the other processes have to end by themselves after one has failed."""
_groups: dict[bool, ProcessGroup] = {}


def process_group(processes: int, fsdp: bool) -> ProcessGroup:
    """Return the group that this process belongs to: a launcher's, or a single process."""
    if processes < 1:
        raise out_of_range("processes", processes, "choose 1 or more")
    if launched_by_torchrun() and processes > 1:
        raise UserError(f"a launcher (torchrun) has started the processes already; leave out {setting('processes')}")
    if fsdp and processes == 1 and not launched_by_torchrun():
        raise UserError(
            f"{setting('fsdp')} spreads the weights over processes; add {setting('processes')}, or start it with "
            "torchrun"
        )
    if not launched_by_torchrun():
        return SINGLE_PROCESS
    if not _groups:
        from greffon.training.distributed.ranks import TorchProcessGroup

        _groups[fsdp] = TorchProcessGroup(fsdp)
    if fsdp not in _groups:
        raise UserError(f"one process cannot train with {setting('fsdp')} and without; start it anew")
    return _groups[fsdp]


@contextmanager
def launched(launch: Launch, machine: Machine, how: str) -> Iterator[ProcessGroup]:
    """Compute with what was asked for, in the group of this process; `how` is the command that resumes."""
    with using(machine):
        group = process_group(launch.processes, launch.fsdp)
        with group.report_once(how):
            yield group


def begin(
    out: str | Path,
    make: Callable[[Path], Run],
    *,
    force: bool,
    quiet: bool,
    group: ProcessGroup,
    launch: Launch,
) -> Run:
    """Make room for a new run, let `make` write its first files, and train it."""
    refuse_missing(launch.trackers)
    begun = f"run {Path(out).absolute()}"
    with ExitStack() as stack:
        with group.main_process_first():
            path = Path(out)
            again = group.noted(begun) == _identity(path)  # of an earlier attempt of this launch
            if group.is_main and not again:
                path = stack.enter_context(room_for(out, force))
                run = make(path)
                group.note(begun, _identity(path))
            else:
                run = Run.open(path)
        return carry_out(run, group=group, quiet=quiet, launch=launch)


def reopen(run: Run, extra_steps: int, *, group: ProcessGroup) -> Run:
    """Prepare a run for resuming; `extra_steps` are added once, however often a launcher restarts."""
    with group.main_process_first():
        if run.recipe.imported:
            raise UserError(
                f"{run.path} was imported and has no training to go on with; "
                f"start one from it with `greffon pretrain TEXT --init-from {run.path} --out RUN`"
            )
        run = Run.open(run.path)
        training, done = run.recipe.training, run.checkpoint_step
        begun = f"steps {run.path.absolute()}"
        if group.noted(begun) is None:
            if run.finished and not extra_steps:
                early = f" (it stopped early, at step {done:,})" if 0 < done < training.steps else ""
                raise UserError(
                    f"{run.path} has finished its {training.steps:,} steps{early}; "
                    f"train longer with `greffon resume {run.path} --extra-steps STEPS`"
                )
            if extra_steps and run.recipe.data.selection == "folds":
                raise UserError(
                    f"{run.path} trained for as long as cross-validation found best; fine-tune anew with more epochs"
                )
            if run.finished and not done:
                raise UserError(
                    f"{run.path} is finished and has no checkpoint any more, so it cannot go on; train it anew, "
                    "for longer"
                )
        if group.is_main:
            begins = (done if run.finished else training.steps) + extra_steps
            steps = int(group.noted(begun) or begins)
            group.note(begun, str(steps))
            if steps != training.steps or (extra_steps and run.finished):
                if run.schedule():  # it was to last so many minutes; the further steps are counted
                    segments = Segment.read(run.schedule(), str(run.path / SCHEDULE))
                    run.log_schedule(Schedule(training, done, segments).at(done).extended(done, steps).to_json())
                run.reopen(replace(run.recipe, training=replace(training, steps=steps)))
    return run


def carry_out(run: Run, *, group: ProcessGroup, quiet: bool, launch: Launch) -> Run:
    """Train a run that has its recipe: in this process, or in child processes."""
    refuse_missing(launch.trackers)
    graft = run.recipe.graft
    if launch.fsdp and graft is not None and graft.adversarial_epsilon:
        # FSDP gathers the weights for one forward and one backward pass; adversarial training has several.
        raise UserError(f"{setting('adversarial_epsilon')} does not go with {setting('fsdp')}; leave one of them out")
    if launch.processes > 1:
        return start_processes(run, launch, quiet=quiet)
    return train(run, quiet=quiet, group=group, trackers=launch.trackers)


def _identity(path: Path) -> str:
    """Identify a directory, so that another one of the same path is told apart from it."""
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


# -- child processes -------------------------------------------------------------------------


def start_processes(run: Run, launch: Launch, *, quiet: bool = False) -> Run:
    """Train a run in several processes on this machine, and end when all of them have ended."""
    import torch
    import torch.distributed as dist

    from greffon.training.distributed.ranks import PARENT, attempt_store

    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
    processes = launch.processes
    threads = max(1, min(available_cores() // processes, torch.get_num_threads()))
    common = {
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is here, not in the first of them
        "TORCHELASTIC_RESTART_COUNT": "0",
        "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",  # nothing leaves this machine
        "OMP_NUM_THREADS": str(threads),
        PARENT: str(os.getpid()),
    }
    words = [sys.executable, "-m", "greffon.training.distributed.worker", str(run.path)]
    words += ["--fsdp"] * launch.fsdp + ["--quiet"] * quiet + [f"--{name}" for name in launch.trackers]
    children: list[subprocess.Popen[bytes]] = []
    with _passing_signals_on(children) as stop:
        for rank in range(processes):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            # A session of their own: a terminal's Ctrl-C reaches them through us, and once.
            children.append(subprocess.Popen(words, env={**os.environ, **common, **place}, start_new_session=True))
        first = _wait_for(children)
    if first is None:
        return Run.open(run.path)
    told = attempt_store(store)
    if told.check(["sentence"]):
        raise UserError(told.get("sentence").decode())
    if stop.asked:
        raise Interrupted(f"greffon resume {run.path}", stop.asked)
    code = children[first].returncode
    raise PeerLostError(f"process {first} ended with {f'signal {-code}' if code < 0 else 'the error above'}")


@contextmanager
def _passing_signals_on(children: Sequence[subprocess.Popen[bytes]]) -> Iterator[Stop]:
    """Forward Ctrl-C and SIGTERM to the child processes, which save and end; afterwards none is left running."""
    stop = Stop()

    def pass_on(number: int, frame: object) -> None:
        stop.asked = number
        for child in children:
            if child.poll() is None:
                child.send_signal(number)

    before = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, pass_on)
    except ValueError:  # not in the main thread: the caller handles signals
        pass
    try:
        yield stop
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.wait()
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait_for(children: Sequence[subprocess.Popen[bytes]]) -> int | None:
    """Wait for all child processes, and return the rank of the first that failed, or None.

    The others then notice it at their next communication, and end by themselves; after a while they are killed.
    """
    first, since = None, 0.0
    while True:
        codes = [child.poll() for child in children]
        if first is None and any(codes):
            first, since = next(rank for rank, code in enumerate(codes) if code), time.monotonic()
        if None not in codes:
            return first
        if first is not None and time.monotonic() - since > GRACE_SECONDS:
            for child in children:
                child.kill()
        time.sleep(0.05)
