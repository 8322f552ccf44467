"""Offset history: what a `__consumer_offsets` log shows of the groups that wrote it.

`history` asks the questions as DataFrames, `report` collects the answers, `page` shows them.
"""
