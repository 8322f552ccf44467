"""Kafka's own command-line tools, run against the server under test."""
