"""``format("gossamer")`` for Spark: found without registration wherever gossamer is installed."""

from pyspark_gossamer.source import DefaultSource

__all__ = ["DefaultSource"]
