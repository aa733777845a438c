"""What holds for all tests."""

import signal

from hypothesis import settings

# A busy machine is no failure: pytest's own time limit catches what hangs.
settings.register_profile("plimsoll", deadline=None)
settings.load_profile("plimsoll")

# Started in the background of a script, we and all that we start would not hear Ctrl-C, which is what some tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
