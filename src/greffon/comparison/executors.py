"""Carry out the tasks of a comparison on other machines: by Dask, or as jobs of Slurm.

A task is a directory that any process can carry out, and is written once; so a worker that is lost costs what it had
done since its last checkpoint. All processes must see the same files under the same paths.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

from greffon.comparison.task import Task, execute
from greffon.comparison.workers import execute_all, shared_out
from greffon.core.device import inherited
from greffon.core.errors import UserError, setting
from greffon.training.stop import Interrupted

Executor = Callable[[Sequence[Task], int | None, Callable[[str], None]], None]

ADDRESS = "DASK_SCHEDULER_ADDRESS"
"""Environment variable with the address of a running Dask cluster; without it, one is started on this machine."""
RETRIES = 3
"""Times that a task is begun again after its worker was lost."""
HOURS = "GREFFON_SLURM_HOURS"
"""Environment variable with the time limit of a Slurm job; what it does not finish goes on with the same command."""


def on_dask(tasks: Sequence[Task], jobs: int | None, tell: Callable[[str], None]) -> None:
    """Carry out the unfinished tasks on the cluster of DASK_SCHEDULER_ADDRESS, or on one of this machine."""
    try:
        from distributed import Client, KilledWorker, LocalCluster, as_completed
    except ImportError:
        raise UserError(
            f"{setting('executor', 'dask')} needs Dask; install it with `pip install 'greffon[dask]'`"
        ) from None
    waiting = [task for task in tasks if not task.finished]
    if not waiting:
        return
    address = os.environ.get(ADDRESS)
    count, threads = shared_out(tasks, jobs, None if address else tell)
    cluster: Any = address or LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=min(count, len(waiting)), threads_per_worker=1, dashboard_address=None
    )
    try:
        with Client(cluster) as client:  # type: ignore[no-untyped-call]
            tell(f"{len(waiting)} tasks on {len(client.scheduler_info()['workers'])} Dask workers")
            futures = {
                client.submit(
                    execute, str(task.path.absolute()), threads, inherited(), pure=False, retries=RETRIES
                ): task
                for task in waiting
            }
            ended = as_completed(futures)  # type: ignore[no-untyped-call]
            for done, future in enumerate(ended, start=1):
                future.result()
                tell(f"{futures[future].name}: {futures[future].outcome} · {done}/{len(waiting)}")
    except KilledWorker:
        raise UserError(
            "a training was lost with each worker that took it, most likely for want of memory; give the workers more, "
            "and repeat the command: finished trainings are kept, begun ones go on"
        ) from None
    except KeyboardInterrupt:
        raise Interrupted("the same command; finished trainings are kept") from None
    finally:
        if not address:
            cluster.close()


def on_slurm(tasks: Sequence[Task], jobs: int | None, tell: Callable[[str], None], cluster: str = "slurm") -> None:
    """Carry out the unfinished tasks as an array of Slurm jobs, `jobs` of them at a time, and wait for them."""
    try:
        import submitit
    except ImportError:
        raise UserError(
            f"{setting('executor', 'slurm')} needs submitit; install it with `pip install 'greffon[slurm]'`"
        ) from None
    waiting = [task for task in tasks if not task.finished]
    count, threads = shared_out(tasks, jobs)
    if not waiting:
        return
    try:
        pool = submitit.AutoExecutor(folder=waiting[0].path.parent / ".slurm" / "%j", cluster=cluster)
    except RuntimeError:
        raise UserError(f"there is no Slurm here (no srun); leave out {setting('executor', 'slurm')}") from None
    pool.update_parameters(
        timeout_min=round(60 * float(os.environ.get(HOURS, "8"))),
        cpus_per_task=threads,
        name="greffon",
        **({"slurm_array_parallelism": count} if cluster == "slurm" else {}),
    )
    tell(f"{len(waiting)} tasks as Slurm jobs, {count} at a time")
    with pool.batch():
        sent = [pool.submit(execute, str(task.path.absolute()), threads, inherited()) for task in waiting]
    try:
        for done, (task, job) in enumerate(zip(waiting, sent, strict=True), start=1):
            try:
                job.result()
            except (submitit.core.utils.UncompletedJobError, submitit.core.utils.FailedJobError) as problem:
                raise UserError(
                    f"the job of {task.name} was lost ({str(problem).splitlines()[0]}); repeat the command: finished "
                    "trainings are kept, begun ones go on"
                ) from None
            tell(f"{task.name}: {task.outcome} · {done}/{len(waiting)}")
    except KeyboardInterrupt:
        for job in sent:
            job.cancel()
        raise Interrupted("the same command; finished trainings are kept") from None


EXECUTORS: dict[str, Executor] = {"local": execute_all, "dask": on_dask, "slurm": on_slurm}
