"""`python -m plimsoll` is `plimsoll`."""

from plimsoll.cli.entry import main

if __name__ == "__main__":
    main()
