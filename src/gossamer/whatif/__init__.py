"""What if: designs of dispatching networks compared, calculated and simulated side by side."""
