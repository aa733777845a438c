"""The governor: events in, decisions out; no I/O, no clock, no dice."""
