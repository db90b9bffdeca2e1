"""Process 1 of a real node: owns the namespaces in which its runtime, its kubelet and their containers live.

Run as a script by `lab.node` below `unshare --mount --pid`: `keeper.py FOLDER`. When it ends, however it ends, the
kernel ends every process of the node, and with the mount namespace all its mounts and the pods' network namespaces
go away. Kernel settings that a kubelet would change for the whole machine are hidden behind files of the node.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

# Fresh and empty inside the node: what programs keep there by custom ends with the node.
PRIVATE = ("/run", "/var/lib", "/var/log")
# What a kubelet and the network plugin wish; they write only where they find something else.
GUARDED = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "net/ipv4/ip_forward": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}


def main(argv: list[str]) -> None:
    folder = Path(argv[1])
    # The machine's /proc is still the one in view: it tells the number by which others can enter.
    outside = os.readlink("/proc/self")
    mount("-t", "proc", "proc", "/proc")
    for place in PRIVATE:
        mount("-t", "tmpfs", "tmpfs", place)
    for setting, wished in GUARDED.items():
        guard(folder, setting, wished)
    kubelet = Path("/var/lib/kubelet")
    kubelet.mkdir()
    mount("--bind", str(folder / "kubelet"), str(kubelet))
    mount("--make-rshared", str(kubelet))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ready = folder / "keeper.pid"
    ready.with_suffix(".new").write_text(outside)
    ready.with_suffix(".new").rename(ready)
    reap()


def guard(folder: Path, setting: str, wished: str) -> None:
    real = Path("/proc/sys") / setting
    if real.exists():
        shown = folder / "settings" / setting
        shown.parent.mkdir(parents=True, exist_ok=True)
        shown.write_text(f"{wished}\n")
        mount("--bind", str(shown), str(real))


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def reap() -> None:
    """Orphans of the node become children of its process 1."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        signal.sigwait({signal.SIGCHLD})


if __name__ == "__main__":
    main(sys.argv)
