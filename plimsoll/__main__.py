"""`python -m plimsoll` is `plimsoll`."""

from plimsoll.cli.main import main

if __name__ == "__main__":
    main()
