"""`dure restore`: lives beside `dure backup`."""

from dure.cli.backup import restore_command as command

__all__ = ["command"]
