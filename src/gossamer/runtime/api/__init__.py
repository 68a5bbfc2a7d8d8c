"""The classes that applications use: nodes, channels, subscriptions, events."""
