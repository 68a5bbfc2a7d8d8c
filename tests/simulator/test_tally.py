"""What a run costs and saves: traffic by channel, what templates counted, hops saved by deadlines."""

from __future__ import annotations

import pytest

from gossamer.core.config import parse
from gossamer.core.event import Envelope, QoS
from gossamer.core.trace import COLUMNS
from gossamer.simulator.scenario.run import Scenario, build, run

TWO = """
duration = 30.0
[network]
kind = "line"
nodes = 4
[[channel]]
name = "busy"
template = "multicast"
[[channel]]
name = "idle"
template = "multicast"
[[channel]]
name = "sure"
template = "reliable"
[[subscribe]]
channel = "busy"
[[subscribe]]
channel = "sure"
nodes = ["n1", "n4"]
[[publish]]
channel = "busy"
nodes = ["n1"]
rate = 1.0
start = 10.0
end = 20.0
[[publish]]
channel = "sure"
nodes = ["n1"]
rate = 1.0
start = 10.0
end = 20.0
"""


def test_every_channel_has_its_own_figures_and_they_add_up():
    result = run(parse(TWO, Scenario), 1)
    busy, idle, sure = (result.channels[name] for name in ("busy", "idle", "sure"))
    assert (busy.published, busy.delivered, busy.traffic.data_messages) == (10, 40, 30)
    assert (sure.published, sure.delivered, sure.traffic.data_messages) == (10, 20, 30)
    assert (idle.published, idle.traffic.data_messages, idle.traffic.control_messages) == (0, 0, 0)
    for name in ("published", "expected", "delivered"):
        assert getattr(result, name) == sum(getattr(each, name) for each in result.channels.values())
    for name in ("control_messages", "control_bytes", "data_messages", "data_bytes"):
        assert getattr(result, name) == sum(getattr(each.traffic, name) for each in result.channels.values())
    assert (
        0.03 <= busy.latency_p90 * 129 / 128 <= busy.latency_p99 * 129 / 128 <= busy.latency_max * 129 / 128
    )


def test_the_backbones_watching_is_counted_apart():
    text = 'duration = 20.0\nmonitor = true\n[network]\nkind = "field"\nnodes = 5\n'
    result = run(parse(text + '[[channel]]\nname = "c"\ntemplate = "multicast"\n', Scenario), 1)
    assert set(result.services) == {"gossamer.hello", "gossamer.linkstate"}
    assert sum(each.control_bytes for each in result.services.values()) > 1000
    assert result.channels["c"].traffic.data_bytes == 0


def test_what_templates_counted_is_summed_over_nodes_and_lives_and_told_apart():
    text = TWO + '[[rule]]\nkind = "loss"\nsenders = ["n3"]\nreceivers = ["n4"]\nprobability = 0.5\n'
    whole = run(parse(text, Scenario), 1).channels["sure"].figures
    assert whole["repaired_by_source"] == 0
    assert whole["repaired_on_the_way"] > 0
    crashed = run(parse(text + '[[rule]]\nkind = "crash"\nnode = "n3"\nat = 29.0\n', Scenario), 1)
    assert crashed.channels["sure"].figures == whole


# deadlines

CHAIN = """
duration = 60.0
[network]
kind = "line"
nodes = 9
[link]
latency = 0.1
[[below]]
role = "client"
nodes = ["n7", "n9"]
each = 2
[[channel]]
name = "c"
template = "TEMPLATE"
[[subscribe]]
channel = "c"
nodes = ["n1", "n4", "n9", "n7-c1", "n9-c2"]
"""


@pytest.fixture
def chain():
    """A line of nine slow links with clients below the seventh and the ninth; one of two listens at each."""

    def make(template: str):
        rows: list = []
        world = build(parse(CHAIN.replace("TEMPLATE", template), Scenario), 1, recorder=rows.append)
        world.run(30)
        return world, rows

    return make


@pytest.mark.parametrize(
    ("expiry", "where", "saved"),
    [
        (0.35, "n5", 6),  # n5 to n9, and the two clients that listen
        (0.55, "n7", 4),  # n7-c1, n8, n9, n9-c2
        (0.75, "n9", 1),  # n9-c2
    ],
)
def test_a_parcel_that_expires_half_way_saves_just_the_hops_behind(chain, expiry, where, saved):
    world, rows = chain("multicast")
    world.publish("n1", "c", b"", Envelope(qos=QoS(expiry=expiry)))
    world.run(40)
    assert sum(each.dropped for each in world.tally.expired.values()) == 1
    assert sum(each.hops_saved for each in world.tally.expired.values()) == saved
    names = [name for name, _ in COLUMNS]
    dropped = [row for row in rows if row[names.index("detail")] == "expired"]
    assert [row[names.index("node")] for row in dropped] == [where]
    whole, _ = chain("multicast")
    before = whole.messages["parcel"], world.messages["parcel"]
    whole.publish("n1", "c")
    whole.run(40)
    assert whole.messages["parcel"] - before[0] == before[1] + saved, "what a parcel without a deadline costs"


def test_a_parcel_in_time_saves_nothing(chain):
    world, _ = chain("multicast")
    world.publish("n1", "c", b"", Envelope(qos=QoS(expiry=5.0)))
    world.run(40)
    assert world.tally.expired == {}


def test_a_reliable_parcel_goes_on_though_it_has_expired_and_saves_nothing(chain):
    world, _ = chain("reliable")
    world.publish("n1", "c", b"", Envelope(qos=QoS(expiry=0.35)))
    world.run(40)
    assert sum(each.hops_saved for each in world.tally.expired.values()) == 0
    assert world.messages["parcel"] == 10
