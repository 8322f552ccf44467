"""Kinds of resources that have configurations, by Kafka's numbers."""

from __future__ import annotations

# ConfigResource.Type
TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32
# DescribeConfigsResponse.ConfigSource
DYNAMIC_TOPIC, STATIC_BROKER, DEFAULT, DYNAMIC_GROUP = 1, 4, 5, 8
# DescribeConfigsResponse.ConfigType
BOOLEAN, STRING, INT, LONG = 1, 2, 3, 5
