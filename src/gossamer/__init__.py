"""gossamer."""
