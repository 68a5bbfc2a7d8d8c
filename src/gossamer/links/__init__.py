"""Links of several connections: what a channel is bound to, and which connection a frame takes."""
