"""The versions both ends must agree on. Knows nothing else; everything may import it."""

PROTOCOL_VERSION = 1
"""The number in `hello.protocol` and `welcome.protocol`. *Source:* protocol.md 2."""

SUBPROTOCOL = "handspan.v1"
"""The WebSocket subprotocol's name. *Source:* protocol.md, first paragraph."""
