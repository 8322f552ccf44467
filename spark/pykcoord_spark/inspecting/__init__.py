"""Offset history: what a `__consumer_offsets` log tells of the groups that wrote it.

`history` asks the questions as DataFrames, `report` collects the answers, `page` shows them.
"""
