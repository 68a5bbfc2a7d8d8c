"""The public names of gossamer, for type checkers; ``gossamer.public`` imports them when they are used."""

from gossamer import errors as errors
from gossamer import template as template
from gossamer.announce.announcer import AnnouncerSettings as AnnouncerSettings
from gossamer.announce.listener import ListenerSettings as ListenerSettings
from gossamer.announce.reliability import Erasure as Erasure
from gossamer.announce.reliability import Repetition as Repetition
from gossamer.announce.sender import Pace as Pace
from gossamer.core.errors import GossamerError as GossamerError
from gossamer.core.event import Criteria as Criteria
from gossamer.core.event import Envelope as Envelope
from gossamer.core.event import QoS as QoS
from gossamer.core.names import Role as Role
from gossamer.core.receipt import Receipt as Receipt
from gossamer.links.binding import Binding as Binding
from gossamer.runtime.api.announcer import Announcer as Announcer
from gossamer.runtime.api.channel import Channel as Channel
from gossamer.runtime.api.event import ReceivedEvent as ReceivedEvent
from gossamer.runtime.api.indexer import Indexer as Indexer
from gossamer.runtime.api.listener import Listener as Listener
from gossamer.runtime.api.node import Node as Node
from gossamer.runtime.api.node import connect as connect
from gossamer.runtime.api.node import run as run
from gossamer.runtime.api.subscription import Subscription as Subscription
from gossamer.runtime.config import Limits as Limits
from gossamer.runtime.config import NodeConfig as NodeConfig
from gossamer.runtime.delivery.acks import Redelivery as Redelivery

__version__: str
