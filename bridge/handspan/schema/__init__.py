"""JSON Schema: compile a schema that a stranger sent, and check values against it.

Owns which schemas are taken, the guards before anything is built, and the words for what does not
fit. Deliberately knows nothing of tools, calls or sessions. Above sits the shell, which hands
`SchemaRoom.compile` to the core; below sits `jsonschema_rs`, which judges.

A schema passes five gates, each cheap, each before the next one's work begins:

    shape       JSON at all; its size in bytes, depth, objects and arrays
    dialect     a draft that is known
    document    references: local ones only, none dangling; their expanded size
    patterns    on the linear-time engine only, and small
    meta-schema by jsonschema_rs, offline

Nothing is ever fetched: no reference but a local one reaches the library, and it is told to stay
offline. `format` is a hint for the model and is not judged. *Source:* behaviour.md 6, 7; P11, P12.
"""

from .room import SchemaRoom
from .validator import CompiledSchema

__all__ = ["CompiledSchema", "SchemaRoom"]
