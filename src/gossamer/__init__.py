"""gossamer: event dissemination with just the right quality of service.

Errors are in ``gossamer.errors``; what an author of a template needs is in ``gossamer.template``.
"""

from gossamer.public import __all__ as __all__
from gossamer.public import __getattr__ as __getattr__

__version__ = "0.1.0"
