"""Groups: the members of a channel on the backbone and the tree that joins them."""
