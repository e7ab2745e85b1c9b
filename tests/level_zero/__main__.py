"""Run a Python program with a software GPU as ``level_zero:gpu``.

    python -m tests.level_zero examples/gemm.py --device level_zero:gpu --m 256 --n 256 --k 64
    python -m tests.level_zero --target bmg --adapter 2 -- -m xetile devices

It needs a C++ compiler, ocloc and iga64. Findings, which a GPU would pass over without a word, are printed at the end,
and make the exit status 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.level_zero.gpu import PRODUCTS, environment, read_findings


def main() -> int:
    """Run the program of the command line; return its exit status, or 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.level_zero", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=PRODUCTS, default="pvc", help="whose GPU (default: pvc)")
    parser.add_argument("--adapter", type=int, choices=(1, 2), help="the SYCL runtime's adapter (default: its choice)")
    parser.add_argument("--driver", default="", help="the driver's version (default: 1.6.33578)")
    parser.add_argument("--order", choices=("late", "early"), default="",
                        help="whether commands run when something waits for them (default), or at once")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what follows python")
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("give a program")
    with tempfile.TemporaryDirectory(prefix="xetile-") as folder:
        file = Path(folder) / "findings"
        variables = environment(options.target, file, adapter=options.adapter, driver=options.driver,
                                order=options.order)
        done = subprocess.run([sys.executable, *command], env={**os.environ, **variables}, check=False)
        findings = read_findings(file)
    for finding in findings:
        print(f"finding: {finding}", file=sys.stderr)
    return done.returncode or bool(findings)


if __name__ == "__main__":
    sys.exit(main())
