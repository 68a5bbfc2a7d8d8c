"""Scenario files: read, checked, built into worlds and run."""
