"""Random faults on real nodes of a cluster, with clients whose histories are judged."""
