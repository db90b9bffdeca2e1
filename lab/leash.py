"""Start a program that cannot outlive the one who asked for it.

Run as a script by `lab.process`: `leash.py PARENT_PID NICE PROGRAM ARGS...`. The kernel sends SIGKILL to this
process when its parent ends, however it ends, and `exec` keeps both that promise and the process id.
It imports little, for it runs before every component.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    parent, niceness, program = int(argv[1]), int(argv[2]), argv[3:]
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl failed: {os.strerror(ctypes.get_errno())}")
    # The parent may have ended between fork and prctl; then no signal will ever come.
    if os.getppid() != parent:
        sys.exit("the process that asked for this one is gone")
    if niceness:
        os.nice(niceness)
    os.execvp(program[0], program)


if __name__ == "__main__":
    main(sys.argv)
