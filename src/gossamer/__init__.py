"""gossamer: event dissemination with just the right quality of service."""

from gossamer.announce.announcer import StationSettings
from gossamer.announce.listener import FollowerSettings
from gossamer.announce.reliability import Erasure, Repetition
from gossamer.announce.sender import Pace
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
    UnsupportedOperation,
    Untrusted,
    WishRefused,
)
from gossamer.core.event import Criteria, Envelope, Wishes
from gossamer.core.names import Role
from gossamer.core.receipt import Receipt
from gossamer.core.template import Settings, Template
from gossamer.links.binding import Binding
from gossamer.runtime.api.announcer import Announcer
from gossamer.runtime.api.channel import Channel
from gossamer.runtime.api.event import ReceivedEvent
from gossamer.runtime.api.indexer import Indexer
from gossamer.runtime.api.listener import Listener
from gossamer.runtime.api.node import Node, connect, run
from gossamer.runtime.api.subscription import Subscription
from gossamer.runtime.config import Limits, NodeConfig
from gossamer.runtime.delivery.acks import Redelivery

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
    "UnsupportedOperation",
    "Untrusted",
    "WishRefused",
    "Wishes",
    "connect",
    "run",
]
