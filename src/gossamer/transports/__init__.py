"""Ways to move frames between nodes: one small interface, one file each."""
