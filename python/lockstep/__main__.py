"""`python -m lockstep ...` is the command `lockstep ...`."""

from lockstep import _programs

_programs.lockstep()
