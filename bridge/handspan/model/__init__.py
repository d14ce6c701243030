"""What adapters of models share: a history made ready, names, schemas, and what a stream comes to.

    prompt      what a model is told before the history: instructions, the page's context
    history     the thread's messages as turns, whole and in the order that every provider demands
    names       names of tools as a provider takes them, and back
    narrow      schemas as a provider takes them, on a copy
    assembler   calls put together from the fragments of a stream
    chat        chat completions: the request, and the reading of its stream
    results     what came of a call inside a step, as the model is shown it
    provided    calls that a library carries out itself, as events
    voice       from a library's own task to the step's items, in order, and its end
    think_tags  thoughts told from text where a stream has both
    keys        the key that a provider wants
    thinking    thoughts as events, with what their provider wants back unread
    patience    retries and timeouts of one request
    extras      which extra brings a library that is not there
    failures    what went wrong, in one line that helps and leaks nothing

Deliberately knows no provider's library. Above sit the agents, strangers to each other.
"""
