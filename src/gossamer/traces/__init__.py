"""Where traces are kept: one writer for both hosts, one hash for both."""
