"""Who signs and whom a node trusts: keys, and template packages that are checked before they are loaded."""
