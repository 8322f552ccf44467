"""The jobs of `python -m pykcoord_spark`: one module each, with a click command named `command`.

A module here imports pyspark inside of its functions: `--help` lists the jobs of all modules.
"""
