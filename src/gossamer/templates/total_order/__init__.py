"""Template total-order: reliable with a sequencer; the order is a stream of its own."""
