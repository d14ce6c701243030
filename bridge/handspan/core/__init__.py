"""The pure core: two machines, Session and Thread, and the parts they are made of.

No I/O, no clock, no dice, no logging, no await. `bridge/README.md` is the map.
"""
