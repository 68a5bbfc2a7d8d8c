"""gossamer: event dissemination with just the right quality of service."""

from gossamer.announce.follower import FollowerSettings
from gossamer.announce.reliability import Erasure, Repetition
from gossamer.announce.sender import Pace
from gossamer.announce.station import StationSettings
from gossamer.core.errors import (
    AddressInUse,
    Altered,
    BadAddress,
    BadEnvelope,
    BadFilter,
    BadName,
    BadPackage,
    CannotConnect,
    ChannelExists,
    Closed,
    ConfigError,
    Cyclic,
    Damaged,
    DiskFull,
    ForgedReceipt,
    Full,
    GossamerError,
    Incomplete,
    LocalError,
    Lost,
    NoAnswer,
    NotAdvertised,
    NotATree,
    NotHandedOver,
    ProtocolError,
    Refused,
    RemoteError,
    StorageError,
    TooLarge,
    UnknownChannel,
    UnknownCodec,
    UnknownKey,
    UnknownTemplate,
    Unsigned,
    Untrusted,
    WishRefused,
)
from gossamer.core.event import Criteria, Envelope, Wishes
from gossamer.core.names import Role
from gossamer.core.receipt import Receipt
from gossamer.core.template import Settings, Template
from gossamer.links.binding import Binding
from gossamer.runtime.acknowledging import Redelivery
from gossamer.runtime.announcer import Announcer
from gossamer.runtime.channel import Channel
from gossamer.runtime.config import Limits, NodeConfig
from gossamer.runtime.indexer import Indexer
from gossamer.runtime.listener import Listener
from gossamer.runtime.node import Node, connect, run
from gossamer.runtime.received import ReceivedEvent
from gossamer.runtime.subscription import Subscription

__version__ = "0.1.0"

__all__ = [
    "AddressInUse",
    "Altered",
    "Announcer",
    "BadAddress",
    "BadEnvelope",
    "BadFilter",
    "BadName",
    "BadPackage",
    "Binding",
    "CannotConnect",
    "Channel",
    "ChannelExists",
    "Closed",
    "ConfigError",
    "Criteria",
    "Cyclic",
    "Damaged",
    "DiskFull",
    "Envelope",
    "Erasure",
    "FollowerSettings",
    "ForgedReceipt",
    "Full",
    "GossamerError",
    "Incomplete",
    "Indexer",
    "Limits",
    "Listener",
    "LocalError",
    "Lost",
    "NoAnswer",
    "Node",
    "NodeConfig",
    "NotATree",
    "NotAdvertised",
    "NotHandedOver",
    "Pace",
    "ProtocolError",
    "Receipt",
    "ReceivedEvent",
    "Redelivery",
    "Refused",
    "RemoteError",
    "Repetition",
    "Role",
    "Settings",
    "StationSettings",
    "StorageError",
    "Subscription",
    "Template",
    "TooLarge",
    "UnknownChannel",
    "UnknownCodec",
    "UnknownKey",
    "UnknownTemplate",
    "Unsigned",
    "Untrusted",
    "WishRefused",
    "Wishes",
    "connect",
    "run",
]
