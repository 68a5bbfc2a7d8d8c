"""How much memory this process has had resident at most.

Not ``ru_maxrss``: that is inherited from whoever started the process, here a test runner with a long life.
"""

from __future__ import annotations

import re
from pathlib import Path


def peak_kibibytes() -> int:
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found, "the system does not tell"
    return int(found[1])
