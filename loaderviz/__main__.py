"""``python -m loaderviz``: the same as ``loaderviz``."""

from loaderviz.cli import main

if __name__ == "__main__":
    main()
