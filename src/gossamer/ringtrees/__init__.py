"""Rings and binary trees by attribute and place (seed 001): the parts of the template ``ringtree``."""
