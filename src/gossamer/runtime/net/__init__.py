"""Links between real nodes: connections, handshakes, dialling and discovery."""
