"""The asyncio host: real sockets, wall time, applications."""
