"""The page: everything in it, nothing fetched, readable without the paper."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gossamer.pipeline.sweep import Failure
from gossamer.whatif.advice import advise
from gossamer.whatif.phrases import GLOSSARY
from gossamer.whatif.pictures import Panel, panels
from gossamer.whatif.report import method, page, recommendation
from gossamer.whatif.script import Limits, Question, read
from gossamer.whatif.summary import cases
from tests.whatif.conftest import answered


class References(HTMLParser):
    """Collects what a page would fetch, and whether its tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "action", "data") and not (value or "").startswith("#"):
                self.fetched.append(f"{tag} {name} {value}")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in ("meta", "br"):
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def made(question: Question, rows: list[dict[str, Any]]) -> str:
    found = cases(question, rows)
    return page(question, found, advise(question, found))


@pytest.fixture(scope="module")
def text(question: Question, rows: list[dict[str, Any]]) -> str:
    return made(question, rows)


def test_the_page_opens_without_a_network(text: str) -> None:
    seen = References()
    seen.feed(text)
    assert seen.fetched == []
    assert seen.open == []
    assert "<script" not in text
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert not re.search(r"(?:src|href)\s*=\s*[\"']?https?:", text)


def test_the_page_answers_and_explains(text: str) -> None:
    assert "Is it &lt;fast&gt; enough?" in text
    assert "a hierarchy of 5 dispatchers, each with up to 4 below it" in text
    assert "20 kbit/s" in text
    assert "<h2>Recommendation</h2>" in text
    assert "advertisement" in text
    assert text.count("<svg") == text.count("</svg>") == 4, "loads, links, the rest, and the network"
    assert "leaf → root" in text
    assert "6 runs were made with the dispatch template itself too: in 6 of them" in text
    for word, _ in GLOSSARY:
        assert f"<b>{word}</b>" in text
    assert "±" in text


def test_the_same_runs_make_the_same_picture(question: Question, rows: list[dict[str, Any]]) -> None:
    series = {"all": cases(question, rows)[:3]}
    shown = [Panel("root", "events", "load_0", limit=100.0)]
    one, same = (panels(shown, series, "traffic.spread") for _ in range(2))
    assert one == same


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(root=1000.0), "it keeps all limits in all 3 cases"),
        (Limits(root=0.1), "No design keeps all limits in all cases"),
        (Limits(), "No limits were given"),
    ],
)
def test_a_recommendation_says_whether_limits_are_kept(
    question: Question, rows: list[dict[str, Any]], limits: Limits, said: str
) -> None:
    asked = msgspec.structs.replace(question, limits=limits)
    assert said in recommendation(asked, advise(asked, cases(asked, rows)))


def test_failed_runs_are_told(question: Question, rows: list[dict[str, Any]]) -> None:
    said = method(question, cases(question, rows), [Failure("k", 1, {}, "ValueError: <no>", "")])
    assert "1 runs failed" in said
    assert "ValueError: &lt;no&gt;" in said


TOPOLOGIES = """
window = 3.0
runs = 1
[topology]
dispatchers = 8
ring = 2
[interest]
dispatchers = 8
[traffic]
sources = 1
sinks = 1
rate = 1.0
[limits]
dispatcher = 6.0
[sweep]
"topology.kind" = ["centralised", "hierarchy", "acyclic", "ring", "multiring", "ringtree"]
propagation = ["subscription", "advertisement"]
"""


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> str:
    question = read(TOPOLOGIES)
    return made(question, answered(question, tmp_path_factory.mktemp("runs")))


def test_all_topologies_are_compared_under_the_same_interest(compared: str) -> None:
    assert "Interest spreads along a hierarchy of 8 dispatchers" in compared
    for kind in ("centralised", "hierarchy", "acyclic", "ring", "multiring", "ringtree"):
        assert f"<td>{kind}, subscription</td>" in compared


def test_what_has_no_template_yet_is_told_to_be_a_model(compared: str) -> None:
    assert "simulated by the model only: multiring, ring, ringtree" in compared
    assert "6 runs were made with the dispatch template itself too: in 6 of them" in compared


def test_a_question_without_a_sweep_has_a_page_too(tmp_path: Path) -> None:
    question = read("window = 5.0\nruns = 0\n[topology]\ndispatchers = 3")
    text = made(question, answered(question, tmp_path))
    assert "as described" in text
    assert "<h2>Pictures</h2>" not in text
