"""``gossamer demo``."""


def demo() -> None: ...
