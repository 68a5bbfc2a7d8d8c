"""One module per system: how its messages are sent, received and echoed."""
