"""What Handspan costs, beside a server written by hand for the one job that is measured.

`python -m benchmarks.stream` and `python -m benchmarks.roundtrip` each print a table; README.md
has the figures with their machine and date. Nothing here is asserted in a timed test.
"""
