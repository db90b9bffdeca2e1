"""`python -m dure` is `dure`."""

from dure.cli import main

main()
