"""`python -m handspan` is `handspan`."""

from handspan.cli import main

main()
