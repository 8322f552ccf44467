"""`python -m pykcoord`: the command line."""

from pykcoord.cli import main

if __name__ == "__main__":
    main()
