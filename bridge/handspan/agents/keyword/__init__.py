"""The demo's agent: from the words of a message to whatever tools a page has; needs no key.

    english                                 the tables: words that mean alike, stop words, numbers
    tokens, params -> skill -> memory       a message as words; a tool, read; what has a name
    sheet <- choices, numbers, switches,    what a clause tells one tool
             texts (leftover)
    filling -> matching                     its arguments; which tool is meant
    mood -> consent                         whether it is an order; whether the call may be made
    explicit -> understanding               a call by name; the wishes of a message
    speech -> agent                         the wording; the step

All of it is pure but `agent`, and linear or near in what it reads. Nothing is known of any page.
"""

from .agent import KeywordAgent

__all__ = ["KeywordAgent"]
