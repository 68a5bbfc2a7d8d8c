"""What nodes know of each other: services that run on every node, without I/O."""
