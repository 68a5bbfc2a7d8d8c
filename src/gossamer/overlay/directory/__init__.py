"""The directory: which channels exist and which template each is bound to."""
