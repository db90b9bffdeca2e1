"""What can go wrong in the lab, said so that the reader knows what to do next.

Raised by every module of the lab; a test that meets one fails with the whole message.
"""


class LabError(RuntimeError):
    """The lab cannot go on; the message says what, where and what to do."""


class GoMissing(LabError):
    """No Go tool chain, or one too old for the modules the lab builds."""


class TooLittleDisk(LabError):
    """A build would fill the disk half way through."""


class BuildFailed(LabError):
    """The Go tool chain refused; its last lines are in the message."""


class ComponentFailed(LabError):
    """A process ended early or never became ready; the end of its log is in the message."""


class ApiError(LabError):
    """An API server answered with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status
