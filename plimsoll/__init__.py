"""Plimsoll: how deep an LLM inference service may be loaded, by tenant and tier, kept and proven.

Read next: `governor/governor.py` (what is decided), `gateway/driver.py` (how decisions are carried out live) and
`requestlog/record.py` (what is written down).
"""

__version__ = "0.1.0"
