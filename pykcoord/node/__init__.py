"""A broker of an existing Kafka cluster that holds no records and leads partitions of
`__consumer_offsets`: it registers with the controllers, follows, leads, and coordinates their
groups. All else of the cluster is left to its brokers.
"""
