"""The registry: attribute-value pairs of a node and of the network."""
