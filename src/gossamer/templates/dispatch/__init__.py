"""Template dispatch: dispatchers in a hierarchy route events by their content."""
