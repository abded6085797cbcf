"""`python -m condgrad`."""

from condgrad.cli import main

if __name__ == "__main__":
    main()
