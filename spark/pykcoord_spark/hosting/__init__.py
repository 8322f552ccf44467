"""Live hosting: the hosts of `pykcoord.cluster` on the executors of a Spark application.

`spark_hosts` runs hosts as Spark tasks, `cluster` is what users call.
"""
