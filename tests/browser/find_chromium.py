"""Find a Chromium for the dashboard tests; with --install, install the system's package where that is possible.

Prints the path, or one line that says why there is none. Called by `make browser` and by the browser fixtures.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """`DURE_CHROMIUM` wins over what is on the PATH."""
    named = os.environ.get("DURE_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


def install() -> str:
    """Why it could not be installed, or nothing."""
    if not shutil.which("apt-get"):
        return "this system has no apt-get; install Chromium by hand or set DURE_CHROMIUM"
    if os.geteuid() != 0:
        return "installing Chromium needs root; run 'sudo apt-get install chromium' or set DURE_CHROMIUM"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"'{' '.join(command)}' failed: {done.stderr.strip().splitlines()[-1:]}"
    return ""


def main() -> int:
    if find() is None and "--install" in sys.argv[1:]:
        print("browser: no Chromium found, installing the system's package ...", flush=True)
        problem = install()
        if problem:
            print(f"browser: dashboard tests will be SKIPPED: {problem}")
            return 0
    found = find()
    print(f"browser: {found}" if found else "browser: dashboard tests will be SKIPPED: no Chromium on this machine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
