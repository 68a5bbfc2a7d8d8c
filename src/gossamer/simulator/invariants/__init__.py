"""What is checked while a world runs: every promise of every channel."""
