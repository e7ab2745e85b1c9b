"""The tuner: which constants make a kernel fastest."""

from xetile.tuning.autotune import autotune
from xetile.tuning.result import Outcome, Result
from xetile.tuning.tuner import tune

__all__ = ["Outcome", "Result", "autotune", "tune"]
