"""The isolation experiment on running engines, beside its simulation: `python -m benchmarks.liveorder`."""
