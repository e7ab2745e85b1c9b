"""Lookup of an external program: an environment variable, else PATH."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from xegpu.support.errors import ToolError


@dataclass(frozen=True)
class ExternalProgram:
    """External program and how it is found.

    Attributes:
        name: its name in PATH.
        variable: environment variable with its path.
        what: what it is, in messages.
        no_program: code of the error for a variable that names no program.
        not_installed: code of the error for a program that is not installed.
        hint: how it is installed.
    """

    name: str
    variable: str
    what: str
    no_program: str
    not_installed: str
    hint: str

    def path(self) -> str:
        """Path of the program.

        Raises:
            ToolError: it is not installed, or the variable names no program.
        """
        named = os.environ.get(self.variable)
        if named and not shutil.which(named):
            raise ToolError(self.no_program, f"{self.variable} is {named!r}, which is not a program", self.hint)
        found = named or shutil.which(self.name)
        if not found:
            raise ToolError(self.not_installed, f"{self.name}, {self.what}, is not installed", self.hint)
        return found
