"""`pykcoord lab`: the rebalancing schemes side by side, on real servers."""
