"""``python -m xetile``: the passes, the emitters and the executions from the command line."""

import sys

from xetile.tools.cli import main

sys.exit(main())
