"""Parallel program builds in worker processes, into the disk cache: ``python -m codegen.runtime.build_worker``.

A request is a pickled list of (device filter string, source, options, kernel name) on standard input; the answer is a
pickled list of error texts, empty for what was built.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from codegen.runtime.program_cache import build_kernel
from xegpu.support.errors import XeError

Job = tuple[str, "str | bytes", str, str]
_FEWEST = 2
"""Minimum number of jobs per worker, below which the start of a process does not pay."""


def build_all(jobs: Sequence[Job], processes: int, timeout: float | None = None) -> list[str]:
    """Build programs into the disk cache in parallel.

    Args:
        jobs: device filter string, OpenCL C or SPIR-V, options, and the kernel's name.
        processes: maximum number of worker processes.
        timeout: seconds for each process.

    Returns:
        for each job an error text, empty on success. A worker that dies or times out fails its own jobs only.
    """
    count = min(processes, -(-len(jobs) // _FEWEST))
    shares = [jobs[i::count] for i in range(count)]
    with ThreadPoolExecutor(max(len(shares), 1)) as pool:
        answers = list(pool.map(lambda share: _ask(share, timeout), shares))
    errors = [""] * len(jobs)
    for first, answer in enumerate(answers):
        errors[first::count] = answer
    return errors


def _ask(jobs: Sequence[Job], timeout: float | None) -> list[str]:
    try:
        done = subprocess.run([sys.executable, "-m", "codegen.runtime.build_worker"], input=pickle.dumps(list(jobs)),
                              capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return [f"the compiler takes longer than {timeout} s"] * len(jobs)
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return [f"the process that built it ended with {done.returncode}: {''.join(last)}"] * len(jobs)
    errors: list[str] = pickle.loads(done.stdout)
    return errors


def main() -> None:
    """Worker's main function: build the jobs of standard input."""
    from codegen.runtime.devices import find_queue, register_cpu_driver

    register_cpu_driver()
    errors = []
    for where, source, options, name in pickle.load(sys.stdin.buffer):
        try:
            build_kernel(find_queue(where), source, options, name)
            errors.append("")
        except XeError as error:
            errors.append(str(error))
    pickle.dump(errors, sys.stdout.buffer)


if __name__ == "__main__":
    main()
