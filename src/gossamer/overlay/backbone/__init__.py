"""The backbone: nodes measure each other, exchange link states and agree on one tree."""
