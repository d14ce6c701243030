"""Who only looks: `bridge.observe`.

Owns what an observer is shown (each its own copy) and what becomes of one that fails: it is logged,
by whatever door it leaves, and harms nothing (P14). Above sits `driver`.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from handspan_protocol.codec import parse_json
from handspan_protocol.strict_json import ENCODED_NESTING_MAX

from .socket import where

Observer = Callable[[str, Mapping[str, Any]], Any]

_LOG = logging.getLogger("handspan.observer")


def tell(observers: Sequence[Observer], thread_id: str, events: Iterable[bytes]) -> None:
    """Show each of them each event, in order."""
    for event in events:
        for observer in observers:
            try:
                observer(thread_id, parse_json(event, nesting=ENCODED_NESTING_MAX))
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                _LOG.error("an observer failed: %s", where(error))
