"""Closed forms for loads, paths and reach: pure functions of numbers and arrays."""
