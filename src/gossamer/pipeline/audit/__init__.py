"""Does a run keep what its channels promised? One module per promise."""
