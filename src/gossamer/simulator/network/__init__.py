"""The simulated network: topologies, link models, access lines and faults."""
