"""Template multiring: peers without a server pass parcels around rings, and rings within rings."""
