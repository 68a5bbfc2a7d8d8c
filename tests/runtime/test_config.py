"""Settings files of nodes: whatever is wrong is named with its key and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gossamer import Limits, Role
from gossamer.errors import ConfigError
from gossamer.links.binding import Binding
from gossamer.runtime.config import ChannelConfig, NodeConfig, load

WHOLE = """\
name = "b1"
role = "secondary"
listen = ["tcp://127.0.0.1:7400"]
connect = ["tcp://127.0.0.1:7401", "ws://127.0.0.1:7402"]
tree = [["b1", "b2"], ["b2", "b3"]]
trace = "traces"
run = "today"

[limits]
patience = 0.5
queue_bytes = 262144

[[channel]]
name = "news"
template = "multicast"
settings = { retry = 0.25 }

[[channel]]
name = "local"
template = "loop"

[[bind]]
channel = "video.*"
tier = "backbone"
transports = ["udp", "tcp"]

[[bind]]
channel = "*"
transports = ["tcp"]
essential = true
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "node.toml"
    path.write_text(text)
    return path


def test_a_whole_file_is_understood(tmp_path: Path) -> None:
    assert load(write(tmp_path, WHOLE)) == NodeConfig(
        name="b1",
        role=Role.SECONDARY,
        listen=("tcp://127.0.0.1:7400",),
        connect=("tcp://127.0.0.1:7401", "ws://127.0.0.1:7402"),
        tree=(("b1", "b2"), ("b2", "b3")),
        trace="traces",
        run="today",
        channel=(ChannelConfig("news", "multicast", {"retry": 0.25}), ChannelConfig("local", "loop")),
        limits=Limits(patience=0.5, queue_bytes=262144),
        bind=(
            Binding("video.*", ("udp", "tcp"), Role.BACKBONE),
            Binding("*", ("tcp",), essential=True),
        ),
    )


def test_an_empty_file_is_a_node_with_defaults(tmp_path: Path) -> None:
    assert load(write(tmp_path, "")) == NodeConfig()


@pytest.mark.parametrize(
    ("old", "new", "key", "line"),
    [
        ('name = "b1"', "name = 7", "name", 1),
        ('"secondary"', '"king"', "role", 2),
        ('["tcp://127.0.0.1:7400"]', '"tcp://127.0.0.1:7400"', "listen", 3),
        ('listen = ["tcp', 'lisen = ["tcp', "lisen", 3),
        ('["b2", "b3"]]', '["b2"]]', "tree", 5),
        ("patience = 0.5", "patience = 0", "limits.patience", 10),
        ("patience = 0.5", "patients = 0.5", "limits.patients", 10),
        ("queue_bytes = 262144", "queue_bytes = 65536", "limits.queue_bytes", 11),
        ('name = "news"\n', "", "channel.name", 13),
        ('template = "loop"', "template = true", "channel.template", 20),
        ("{ retry = 0.25 }", "[]", "channel.settings", 16),
        ('template = "loop"', 'template = "loop"\ncolour = "red"', "channel.colour", 21),
        ("patience = 0.5", "patience = ", "patience", 10),
        ('["udp", "tcp"]', '["udp", "pigeon"]', "bind.transports", 25),
        ('["udp", "tcp"]', "[]", "bind.transports", 25),
        ('["tcp"]\nessential', '["tcp", "tcp"]\nessential', "bind.transports", 29),
        ('"video.*"\ntier = "backbone"', '"*"', "bind.channel", 27),
        ('"video.*"', '"my video"', "bind.channel", 23),
        ('"video.*"', '""', "bind.channel", 23),
        ('tier = "backbone"', 'tier = "secondary"', "bind.tier", 24),
        ('tier = "backbone"', 'tier = "king"', "bind.tier", 24),
        ('tier = "backbone"', 'teer = "backbone"', "bind.teer", 24),
        ("[limits]", "[limits", "limits", 9),
    ],
)
def test_what_is_wrong_is_named_with_key_and_line(
    tmp_path: Path, old: str, new: str, key: str, line: int
) -> None:
    assert old in WHOLE
    path = write(tmp_path, WHOLE.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert (caught.value.key, caught.value.line, caught.value.file) == (key, line, str(path))
    assert f"{path}, line {line}, key '{key}': " in str(caught.value)


def test_a_file_that_cannot_be_read_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "absent.toml")
    (tmp_path / "odd.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(tmp_path / "odd.toml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path)
