"""Attacks of clients on a server: as processes, as tests, and for the bench beside Kafka."""
