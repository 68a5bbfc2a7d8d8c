"""From a channel to its subscribers: queues, acknowledgements, replay, sessions, drops."""
