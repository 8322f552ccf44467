"""A group's past run again in virtual time, under other settings."""

from pykcoord.replaying.changes import KEYS, Changes, changes_of, concern
from pykcoord.replaying.outcome import Outcome, outcome_of
from pykcoord.replaying.script import Script, Traits, script_of, traits_of
from pykcoord.replaying.stage import play

__all__ = [
    "KEYS", "Changes", "Outcome", "Script", "Traits", "changes_of", "concern", "outcome_of", "play",
    "script_of", "traits_of",
]  # fmt: skip
