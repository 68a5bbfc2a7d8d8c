"""Every run of the tests is the same run: hypothesis draws the same examples and never looks at a clock."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "same-every-time",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same-every-time")
