"""Rings of peers and rings within them, without I/O: what template ``multiring`` is made of."""
