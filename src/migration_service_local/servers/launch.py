"""Replaces itself with another program, which dies with its parent.

It runs as a script with the standard library only, because none of this is safe between fork and exec in a
process that has threads:

    python -I -S launch.py PARENT DEATH_SIGNAL USER GROUP PROGRAM ARGUMENT...

`PARENT` is the process id of the caller. `USER` and `GROUP` are numbers, or -1 for no change.
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Change the user, tie this process to its parent, and run the program in its place."""
    parent, death_signal, user, group = (int(argument) for argument in arguments[:4])
    program = arguments[4:]
    if user >= 0:
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
    tie_to(parent, death_signal)  # after setuid, which clears it
    try:
        os.execv(program[0], program)
    except OSError as error:
        sys.exit(f"cannot run {program[0]}: {error.strerror}")


def tie_to(parent: int, death_signal: int) -> None:
    """Have this process get a signal when its parent ends. Exit if it has already ended."""
    # macOS has no equivalent. There, the next start stops what is left.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent is gone")


if __name__ == "__main__":
    main(sys.argv[1:])
