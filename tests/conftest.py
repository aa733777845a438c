"""What holds for all tests."""

from hypothesis import settings

# A busy machine is no failure: pytest's own time limit catches what hangs.
settings.register_profile("plimsoll", deadline=None)
settings.load_profile("plimsoll")
