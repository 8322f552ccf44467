"""The configuration: Kafka's names, units, defaults and bounds, checked before anything starts."""

from __future__ import annotations

from pykcoord._setting import Setting
from pykcoord.config.settings import SETTINGS, Config, load, setting

__all__ = ["SETTINGS", "Config", "Setting", "load", "setting"]
