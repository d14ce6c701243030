"""Log lines for machines: one JSON object a line, without payloads and without secrets.

Fields that a record carries beside the standard ones (`extra=`) are kept, those of the redaction
list are not. *Source:* behaviour.md 7.
"""

import json
import logging
from datetime import UTC, datetime
from typing import Final

REDACTED: Final = frozenset({"token", "secret", "authorization", "cookie", "password", "api_key"})
"""Names of fields whose values never enter a log."""

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({})))


class JsonLines(logging.Formatter):
    """One object a record: time, level, room, message, and the record's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; a traceback is one field."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": at,
            "level": record.levelname.lower(),
            "room": record.name,
            "message": record.getMessage(),
        }
        for key, value in vars(record).items():
            if key not in _STANDARD and key not in ("message", "asctime"):
                line[key] = "[redacted]" if key.lower() in REDACTED else value
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
