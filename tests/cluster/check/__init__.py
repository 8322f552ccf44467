"""A check of coordinators from outside: load from many clients, and a verdict on all that they saw.

    python -m tests.cluster.check --bootstrap HOST:PORT --seconds 60

runs against any Kafka-compatible cluster while somebody kills, stops and cuts off its nodes.
"""
