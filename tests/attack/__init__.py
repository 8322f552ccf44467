"""What a client may do to harm a server: as processes, as tests, and for the bench beside Kafka."""
