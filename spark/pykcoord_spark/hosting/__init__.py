"""Live hosting: the nodes of a cluster (`pykcoord.cluster`) on the executors of an application.

`host` is a node in a Spark task, `spark_hosts` launches it; `registry` is what the driver and the
hosts tell each other, `watching` what the driver sees, `cluster` what users call.
"""
