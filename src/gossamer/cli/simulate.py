"""``gossamer simulate``."""


def simulate() -> None: ...
