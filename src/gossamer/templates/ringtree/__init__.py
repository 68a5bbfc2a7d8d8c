"""Template ringtree: groups by attribute and region, a ring of entry points, binary trees behind it."""
