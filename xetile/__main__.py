"""``python -m xetile``: the passes, the emitters and the executions from the command line."""

import sys

from xetile.commands import main

sys.exit(main())
