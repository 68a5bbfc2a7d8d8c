"""Filters over envelopes: their languages, how they relate, and an index of many. Pure functions, no I/O."""
