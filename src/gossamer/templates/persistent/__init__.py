"""Template persistent: total order with a history on disk."""
