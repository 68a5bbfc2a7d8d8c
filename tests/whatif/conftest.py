"""A small question, answered without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gossamer.pipeline.sweep import task
from gossamer.whatif.inquiry import Inquiry
from gossamer.whatif.script import Question, read

TEXT = """
name = "small"
about = "Is it <fast> enough?"
window = 10.0
runs = 3

[topology]
dispatchers = 5
arity = 4

[traffic]
sources = 2
sinks = 2
proactive = 1
reactive = 1
kinds = 2
rate = 1.0

[link]
bandwidth = 2500.0

[dispatcher]
event = 0.001

[limits]
root = 16.0
link = 0.9

[sweep]
propagation = ["subscription", "advertisement"]
"traffic.spread" = [0.0, 0.5, 1.0]
"""


@pytest.fixture(scope="session")
def question() -> Question:
    return read(TEXT, "small.toml")


@pytest.fixture(scope="session")
def rows(question: Question, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What a sweep makes of it, one run after the other."""
    return answered(question, tmp_path_factory.mktemp("runs"))


def answered(question: Question, folder: Path) -> list[dict[str, Any]]:
    inquiry = Inquiry(question)
    found = []
    for settings in inquiry.configurations():
        own = task(settings, inquiry, question.seed)
        plain = {key.replace(".", "_"): value for key, value in settings.items()}
        found.append(
            {"configuration": own.key, **plain, "seed": own.seed, **inquiry(settings, own.seed, folder)}
        )
    return found
