"""What the author of a template needs: the base class, its context, messages, promises and tools.

``gossamer.testing`` runs a template under every fault that it promises to survive.
"""

from gossamer.core.context import BELOW, SERVER, TREE, Context
from gossamer.core.control import Message, on
from gossamer.core.duplicates import Seen
from gossamer.core.names import Role, nanoseconds
from gossamer.core.operations import Advertise, Withdraw
from gossamer.core.parcel import Header, Parcel
from gossamer.core.receipt import Stamp
from gossamer.core.template import (
    AT_MOST_ONCE,
    CAUSAL,
    DURABLE,
    GAP_FREE,
    PROGRESS,
    TOTAL_ORDER,
    Membership,
    Settings,
    Template,
)

__all__ = [
    "AT_MOST_ONCE",
    "BELOW",
    "CAUSAL",
    "DURABLE",
    "GAP_FREE",
    "PROGRESS",
    "SERVER",
    "TOTAL_ORDER",
    "TREE",
    "Advertise",
    "Context",
    "Header",
    "Membership",
    "Message",
    "Parcel",
    "Role",
    "Seen",
    "Settings",
    "Stamp",
    "Template",
    "Withdraw",
    "nanoseconds",
    "on",
]
