"""A request's fields as a provider's library takes them.

Libraries know the fields of their day, and refuse others as unexpected; servers know more (`top_k`
of vLLM) or still know what a library has dropped. What a library does not know goes into its
`extra_body`, which is sent as it is.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

Json = Any


def fitting(create: Callable[..., Any], request: Mapping[str, Json]) -> dict[str, Json]:
    """Arguments for `create`, which send this request."""
    known = inspect.signature(create).parameters
    fits = {key: value for key, value in request.items() if key in known}
    others = {key: value for key, value in request.items() if key not in known}
    if others:
        fits["extra_body"] = {**(fits.get("extra_body") or {}), **others}
    return fits
