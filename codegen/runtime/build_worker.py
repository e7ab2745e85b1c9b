"""Parallel program builds in worker processes, into the disk cache: ``python -m codegen.runtime.build_worker``.

A request is a pickled list of (device filter string, source, options, kernel name) on standard input; the answers are
pickled error texts, one after the other, empty for what was built.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Timer

from codegen.runtime.program_cache import build_kernel
from codegen.runtime.progress import Advance, progress_bar
from xegpu.support.errors import XeError

Job = tuple[str, "str | bytes", str, str]
_FEWEST = 2
"""Minimum number of jobs per worker, below which the start of a process does not pay."""


def build_all(jobs: Sequence[Job], processes: int, timeout: float | None = None, *,
              progress: bool = True) -> list[str | None]:
    """Build programs into the disk cache in parallel.

    Args:
        jobs: device filter string, OpenCL C or SPIR-V, options, and the kernel's name.
        processes: maximum number of worker processes.
        timeout: seconds after which the processes are stopped.
        progress: whether a progress bar is shown.

    Returns:
        for each job an error text, empty on success, None where the time ended first. A worker that dies fails its
        unfinished jobs only.
    """
    count = min(processes, -(-len(jobs) // _FEWEST))
    shares = [jobs[i::count] for i in range(count)]
    with progress_bar("building", len(jobs), is_wanted=progress) as advance, \
            ThreadPoolExecutor(max(len(shares), 1)) as pool:
        answers = list(pool.map(lambda share: _ask(share, timeout, advance), shares))
    errors: list[str | None] = [""] * len(jobs)
    for first, answer in enumerate(answers):
        errors[first::count] = answer
    return errors


def _ask(jobs: Sequence[Job], timeout: float | None, advance: Advance) -> list[str | None]:
    errors: list[str | None] = []
    with tempfile.TemporaryFile() as log, subprocess.Popen(
            [sys.executable, "-m", "codegen.runtime.build_worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=log) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        late = Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = Timer(timeout or 0, stop)
        if timeout is not None:
            timer.start()
        try:
            process.stdin.write(pickle.dumps(list(jobs)))
            process.stdin.close()
            while len(errors) < len(jobs):
                errors.append(pickle.load(process.stdout))
                advance(1)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):  # the process ended before its last answer
            code = process.wait()
            log.seek(0)
            last = log.read().decode(errors="replace").strip().splitlines()[-1:]
            reason = None if late.is_set() else f"the process that built it ended with {code}: {''.join(last)}"
            errors += [reason] * (len(jobs) - len(errors))
        finally:
            timer.cancel()
    return errors


def main() -> None:
    """Worker's main function: build the jobs of standard input."""
    from codegen.runtime.devices import find_queue, register_cpu_driver

    register_cpu_driver()
    for where, source, options, name in pickle.load(sys.stdin.buffer):
        reason = ""
        try:
            build_kernel(find_queue(where), source, options, name)
        except XeError as error:
            reason = str(error)
        pickle.dump(reason, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
