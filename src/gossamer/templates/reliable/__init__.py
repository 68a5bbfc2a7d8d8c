"""Template reliable: multicast with a window per source at every node of the tree."""
