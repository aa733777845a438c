"""How long a restart may take: 2 s on a machine that is not busy with other things; on one that is, in proportion."""

import os


def allowed() -> float:
    """s, by the load of the last minute."""
    return 2.0 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
