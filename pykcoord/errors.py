"""The exceptions of pykcoord: the type says who is at fault.

`ConfigError` and `ArgumentError`: the operator or the caller. `CorruptLogError`, `LogLockedError`,
`LogFencedError`, `LogDirectoryLostError`: the directory on disk, with the way out. `KafkaError`: an
answer of the coordinator, by Kafka's number. A fault of pykcoord itself is never one of these: it
is an assertion. This module imports nothing of pykcoord.
"""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "ArgumentError",
    "ConfigError",
    "CoordinatorClosedError",
    "CorruptLogError",
    "JavaAssignorError",
    "KafkaError",
    "KcoordError",
    "ListenerError",
    "LogDirectoryLostError",
    "LogError",
    "LogFencedError",
    "LogLockedError",
]


class KcoordError(Exception):
    """Base of everything that pykcoord raises on purpose. `str()` is one line, fit to be shown."""


class MissingExtraError(ModuleNotFoundError):
    """A library that an extra brings is missing: `str()` says how to get it. Callers know it as the
    ImportError that it is."""


class ConfigError(KcoordError, ValueError):
    """A configuration that is refused at start.

    `key` is the name as Kafka spells it, or the file or option where no key was reached.
    """

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


class ArgumentError(KcoordError, ValueError):
    """A call with an argument that cannot be right. `argument` names it."""

    def __init__(self, argument: str, reason: str) -> None:
        super().__init__(f"{argument}: {reason}")
        self.argument = argument
        self.reason = reason


class CoordinatorClosedError(KcoordError, RuntimeError):
    """A call on a coordinator, member or log that was closed before."""


class ListenerError(KcoordError, RuntimeError):
    """A listener of a member ended by what is no ordinary exception, such as `sys.exit()`, which
    is the cause. Only its member ends."""


class JavaAssignorError(KcoordError, RuntimeError):
    """The Java class of that name fails on this group, and its result was asked for."""

    def __init__(self, strategy: str, reason: str) -> None:
        super().__init__(f"{strategy}: {reason}")
        self.strategy = strategy
        self.reason = reason


class LogError(KcoordError):
    """The log on disk cannot be used as it is."""


class CorruptLogError(LogError):
    """Bytes on disk that are not what was written there.

    `position` is the byte in `file` where the broken batch starts, `offset` the offset the log
    should continue with there (-1 where it cannot be known), `advice` what the operator can do.
    """

    def __init__(
        self, file: Path | str, position: int, offset: int, reason: str, advice: str = ""
    ) -> None:
        where = f"{file}: byte {position}" + (f", offset {offset}" if offset >= 0 else "")
        super().__init__(f"{where}: {reason}" + (f"; {advice}" if advice else ""))
        self.file = Path(file)
        self.position = position
        self.offset = offset
        self.reason = reason
        self.advice = advice


class LogLockedError(LogError):
    """Another process has the directory open for writing. `pid` is that process, if it is known."""

    def __init__(self, directory: Path | str, pid: int | None = None) -> None:
        holder = f"process {pid}" if pid is not None else "another process"
        super().__init__(f"{directory}: in use by {holder}; stop it, or use another directory")
        self.directory = Path(directory)
        self.pid = pid


class LogFencedError(LogError):
    """A writer with a newer leader epoch has taken over: this one must not write any more."""

    def __init__(self, directory: Path | str, epoch: int, newer_epoch: int) -> None:
        super().__init__(
            f"{directory}: leader epoch {epoch} was superseded by {newer_epoch}; "
            "another process writes here now"
        )
        self.directory = Path(directory)
        self.epoch = epoch
        self.newer_epoch = newer_epoch


class LogDirectoryLostError(LogError):
    """The directory was moved away, deleted or replaced while this process had it open: another
    process could open what stands under its name, so that this one must end."""

    def __init__(self, directory: Path | str, reason: str) -> None:
        super().__init__(f"{directory}: {reason}")
        self.directory = Path(directory)
        self.reason = reason


class KafkaError(KcoordError):
    """An answer of the coordinator that is an error: `code` is Kafka's number.

    Source: org.apache.kafka.common.protocol.Errors.
    """

    def __init__(self, code: int, message: str = "") -> None:
        self.code = code
        super().__init__(f"{self.name} ({code})" + (f": {message}" if message else ""))

    @property
    def name(self) -> str:
        """Kafka's name of the code, such as `UNKNOWN_MEMBER_ID`."""
        return _kafka_error(self.code)[0]

    @property
    def retriable(self) -> bool:
        """Whether Kafka's own clients would send the request again."""
        return _kafka_error(self.code)[1]


def _kafka_error(code: int) -> tuple[str, bool]:
    # Imported late: kio takes longer to load than the rest of this package together.
    from kio.schema.errors import ErrorCode

    try:
        known = ErrorCode(code)
    except ValueError:
        return f"ERROR_{code}", False
    return known.name.upper(), known.retriable
