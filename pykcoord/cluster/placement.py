"""Which host is to lead which shard: pure arithmetic, no clock, no I/O.

What is led stays where it is while its host lives, as far as that is fair: a move is a short gap
for its groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["place"]

# Shards that move in one round only because a host has too many: the others' gaps come later.
_MOVES_AT_ONCE = 4


def place(
    shards: int, hosts: Iterable[int], current: Mapping[int, int], moves: int = _MOVES_AT_ONCE
) -> dict[int, int]:
    """Shard to host, for all shards; empty if there are no hosts.

    `current` is what is so by now; hosts that are not among `hosts` are gone. Loads differ by at
    most one once calls with `moves` each have said so often enough.
    """
    load: dict[int, list[int]] = {host: [] for host in sorted(hosts)}
    if not load:
        return {}
    homeless = []
    for shard in range(shards):
        at = current.get(shard)
        if at in load:
            load[at].append(shard)
        else:
            homeless.append(shard)
    for shard in homeless:
        load[min(load, key=lambda host: (len(load[host]), host))].append(shard)
    for _ in range(moves):
        least = min(load, key=lambda host: (len(load[host]), host))
        most = max(load, key=lambda host: (len(load[host]), -host))
        if len(load[most]) - len(load[least]) < 2:
            break
        load[least].append(load[most].pop())
    return {shard: host for host, placed in load.items() for shard in placed}
