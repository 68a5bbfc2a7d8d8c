"""Template causal: reliable, and no event is delivered before the events it depends on."""
