"""What is wrong in a scenario, said with the key it stands under."""

from __future__ import annotations

from gossamer.core.errors import ConfigError, LocalError


class naming:  # noqa: N801
    """Turns what is wrong inside the block into a ConfigError for a key."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, where: object) -> None:
        if isinstance(error, ConfigError):
            key = error.key if error.key.startswith(self._key) else f"{self._key}.{error.key}"
            raise ConfigError(error.reason, key=key) from None
        if isinstance(error, LocalError):
            raise ConfigError(str(error), key=self._key) from None


def after(start: float, end: float | None, key: str) -> None:
    """Raise ConfigError unless an end comes after its start."""
    if end is not None and not end > start:
        raise ConfigError(f"{end} is not after the start at {start}", key=key)
