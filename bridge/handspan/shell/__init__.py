"""Everything with a clock, a task or a socket: it performs the core's effects and feeds it inputs.

`driver` calls the machines, `hub` keeps them, `steps` runs agents and server tools, `websocket`
and `writer` talk to pages.
"""
