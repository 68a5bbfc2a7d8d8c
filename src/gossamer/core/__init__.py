"""Protocol logic without I/O: no clock, no dice, no socket, no coroutine, no third party but msgspec."""
