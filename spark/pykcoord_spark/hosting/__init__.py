"""Live hosting: unmodified Kafka clients, and shards on many hosts.

`host` is the process that serves, `leading` what it leads, `hosted_log` how it writes, `registry`
and `topics` what all hosts read, `controller` who keeps every shard led. No Spark in any of these:
`supervisor` starts hosts as Spark tasks, `cluster` is what users call.
"""
