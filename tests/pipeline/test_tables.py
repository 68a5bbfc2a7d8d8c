"""Each table over one small story: two events along a line of three nodes, one of them repaired."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gossamer.core import trace
from gossamer.pipeline import tables
from tests.pipeline.stories import SECOND, Story, told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("audits")  # reports are made of the same tables


def line(run: str, repaired: bool) -> Story:
    """a publishes 1 and 2+3; b forwards; somebody at c listens, another, who is choosy, hears only 1."""
    story = Story(run, "at-most-once").opened("a", "b", "c")
    story.subscribed("c").subscribed("c", "Criteria(('x', '=', 1),)", 2)
    for number, count in ((1, 1), (2, 2)):
        story.published("a", number, count)
        story.parcel("a", trace.SENT, "a", number, count, "b").parcel(
            "b", trace.RECEIVED, "a", number, count, "a"
        )
        story.parcel("b", trace.SENT, "a", number, count, "c")
        if repaired and number == 2:
            story.parcel("b", trace.DROPPED, "a", number, count, "c", "lost on the way")
            story.parcel("b", trace.SENT, "a", number, count, "c")
        story.parcel("c", trace.RECEIVED, "a", number, count, "b").delivered("c", "a", number, count)
    story.delivered("c", "a", 1, to=2)
    story.row("c", trace.CONTROL, trace.SENT, peer="b", detail="Ack")
    return story.row("c", trace.MEMBER, trace.UNSUBSCRIBED, peer="1").published("a", 4)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    made = told([line("plain", False), line("lossy", True)])
    return spark.createDataFrame(made).coalesce(1).localCheckpoint()


def test_a_hop_is_a_parcel_over_a_link_with_its_latency_and_outcome(rows: DataFrame) -> None:
    lossy = tables.hops(rows).where("run = 'lossy'").orderBy("first", "sender").collect()
    told = [(hop.sender, hop.receiver, hop.first, hop.sent, hop.dropped, hop.outcome) for hop in lossy]
    assert told == [
        ("a", "b", 1, 1, 0, "received"),
        ("b", "c", 1, 1, 0, "received"),
        ("a", "b", 2, 1, 0, "received"),
        ("b", "c", 2, 2, 1, "received"),
    ]
    assert [hop.latency // SECOND for hop in lossy] == [1, 1, 1, 3]


def test_a_journey_is_an_event_at_a_subscription_with_its_path(rows: DataFrame) -> None:
    found = tables.journeys(rows).where("run = 'plain'").orderBy("number", "subscription").collect()
    assert [(each.number, each.subscription) for each in found] == [(1, "1"), (1, "2"), (2, "1"), (3, "1")]
    assert {tuple(each.path) for each in found} == {("a", "b", "c")}
    assert {each.hops for each in found} == {2}
    assert [each.latency // SECOND for each in found] == [5, 12, 5, 5]


def test_a_scorecard_says_how_well_a_channel_served_and_what_it_cost(rows: DataFrame) -> None:
    card = tables.scorecard(rows).where("run = 'lossy'").first()
    assert card is not None
    assert card.template == "made-up"
    assert (card.published, card.expected, card.delivered) == (4, 3, 4)
    assert card.delivery_ratio == 1.0
    assert (card.duplicates, card.repairs) == (0, 1)
    assert (card.latency_p50 / SECOND, card.latency_max / SECOND) == (7, 14)
    assert card.jitter / SECOND == 2
    assert (card.control_messages, card.data_messages, card.data_bytes) == (1, 5, 450)


def test_node_load_counts_messages_and_bytes_per_bucket(rows: DataFrame) -> None:
    plain = tables.node_load(rows, bucket=1000).where("run = 'plain'").orderBy("node").collect()
    assert [(each.node, each.sent, each.received, each.delivered, each.dropped) for each in plain] == [
        ("a", 2, 0, 0, 0),
        ("b", 2, 2, 0, 0),
        ("c", 1, 2, 4, 0),
    ]
    assert {each.since for each in plain} == {0}
    assert tables.node_load(rows, bucket=5).where("node = 'a' and run = 'plain'").count() > 1


def test_link_utilisation_keeps_directions_apart(rows: DataFrame) -> None:
    both = tables.link_utilisation(rows, bucket=1000).where("run = 'plain'").orderBy("a").collect()
    told = [(each.a, each.b, each.messages_ab, each.messages_ba, each.bytes_ab) for each in both]
    assert told == [("a", "b", 2, 0, 180), ("b", "c", 2, 1, 180)]


def test_membership_says_from_when_to_when_with_which_criteria(rows: DataFrame) -> None:
    seats = tables.membership(rows).where("run = 'plain'").orderBy("subscription").collect()
    assert [(each.subscription, each.criteria != "", each.left is None) for each in seats] == [
        ("1", False, False),
        ("2", True, True),
    ]
    assert seats[0].since == 4 * SECOND
    assert seats[1].until == seats[0].left, "the last row of that node"


def test_compare_puts_two_runs_side_by_side(rows: DataFrame) -> None:
    found = {row.measure: row for row in tables.compare(rows, "plain", "lossy").collect()}
    assert (found["repairs"].a, found["repairs"].b, found["repairs"].change) == (0, 1, None)
    assert (found["data_messages"].a, found["data_messages"].b, found["data_messages"].change) == (4, 5, 0.25)
