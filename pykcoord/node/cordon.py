"""Whether the controllers may give this node replicas (KIP-1066): not, but for a short time after
somebody has set `cordoned.log.dirs` of this broker to nothing.

A controller refuses to reassign anything to a broker whose directories are all cordoned (since
Kafka 4.4), so a move begins with that. New topics could be placed here meanwhile: it ends by
itself.
"""

from __future__ import annotations

import logging

from pykcoord.clock import monotonic_seconds

__all__ = ["CORDON_SETTING", "OPEN_SECONDS", "Cordon"]

logger = logging.getLogger("pykcoord.node")

CORDON_SETTING = "cordoned.log.dirs"
OPEN_SECONDS = 30.0


class Cordon:
    """`told` what the setting is; `holds` whether this node is cordoned now."""

    def __init__(self) -> None:
        self._setting: str | None = None
        self._is_first = True
        self._open_until = float("-inf")

    def told(self, setting: str | None) -> bool:
        """The setting of this broker, None: not set. Says whether there is something to tell the
        controller. What stood there before the start opens nothing."""
        was_first, self._is_first = self._is_first, False
        if setting == self._setting:
            return False
        if self._setting is not None and not self.holds():
            logger.info(
                "replicas may not be assigned to this node any more", extra={"event": "cordoned"}
            )
        self._setting = setting
        opens = setting is not None and not setting.strip() and not was_first
        self._open_until = monotonic_seconds() + OPEN_SECONDS if opens else float("-inf")
        if opens:
            logger.warning(
                "replicas may be assigned to this node for %g s, also those of new topics",
                OPEN_SECONDS, extra={"event": "uncordoned"},
            )  # fmt: skip
        return True

    def holds(self) -> bool:
        """Whether the controller may give this node nothing."""
        return monotonic_seconds() >= self._open_until
