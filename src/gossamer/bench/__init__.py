"""Measures gossamer beside other messaging systems, on this machine, in one run."""
