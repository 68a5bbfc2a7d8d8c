"""gossamer: event dissemination with just the right quality of service."""

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
    DiskFull,
    ForgedReceipt,
    Full,
    GossamerError,
    Incomplete,
    LocalError,
    NoAnswer,
    NotAdvertised,
    NotATree,
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
from gossamer.runtime.channel import Channel
from gossamer.runtime.config import Limits, NodeConfig
from gossamer.runtime.node import Node, connect, run
from gossamer.runtime.received import ReceivedEvent
from gossamer.runtime.subscription import Subscription

__version__ = "0.1.0"

__all__ = [
    "AddressInUse",
    "Altered",
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
    "DiskFull",
    "Envelope",
    "ForgedReceipt",
    "Full",
    "GossamerError",
    "Incomplete",
    "Limits",
    "LocalError",
    "NoAnswer",
    "Node",
    "NodeConfig",
    "NotATree",
    "NotAdvertised",
    "ProtocolError",
    "Receipt",
    "ReceivedEvent",
    "Redelivery",
    "Refused",
    "RemoteError",
    "Role",
    "Settings",
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
