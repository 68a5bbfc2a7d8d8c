"""Raft: a few nodes keep one replicated log, also through crashes and partitions."""
