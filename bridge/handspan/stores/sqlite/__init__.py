"""Threads and sessions in one SQLite file: `ports.Store`, with nothing but the standard library.

    place       where the file may be, who has it, how it is opened
    schema      its tables, by version; what each change does to them
    writer      the one thread that writes, all that waits in one transaction
    reading     what is committed
    store       the port: what is committed, and what still waits, as one

The loop's thread reads and queues; it never waits for the disk's writer. What is read is the newest
commit with the changes laid over it that the commit lacks, so a store in trouble can still be read.
"""

from .store import SQLiteStore

__all__ = ["SQLiteStore"]
