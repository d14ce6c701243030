"""Models behind chat completions: OpenAI's, and every server that speaks the same.

    OpenAIChat("gpt-5-mini")
    OpenAIChat("llama3.2", base_url="http://127.0.0.1:11434/v1")

The request and the reading of its stream are `model.chat`; here is the library that carries them.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Final

from openai import AsyncOpenAI, AsyncStream, DefaultAsyncHttpxClient

from handspan.model.chat import Reader, request_of
from handspan.model.keys import check_reach, key_of
from handspan.model.names import Names
from handspan.model.patience import Patience, Provider

Json = Any

NO_KEY: Final = "none"
"""What a server that is not OpenAI's gets when no key was given: the library insists on one."""


class OpenAIChat:
    """An agent that is a model behind chat completions.

    `base_url`: of a server that is not OpenAI's; it needs no key. `instructions`: what the model is
    told before the history. `options`: further fields of every request (`temperature`, ...); None
    takes one away. `narrowest_schemas`: for servers that refuse a request for a schema keyword they
    do not know. `client`: an AsyncOpenAI of yours, in place of one made here.

    Raises:
        UsageError: there is no key (OPENAI_API_KEY, or `api_key`), or what was given cannot work.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        instructions: str = "",
        options: Mapping[str, Json] | None = None,
        narrowest_schemas: bool = False,
        patience: Patience | None = None,
        client: AsyncOpenAI | None = None,
    ) -> None:
        check_reach("OpenAIChat", AsyncOpenAI, client, base_url, api_key)
        self.model = model
        self.instructions = instructions
        self._client = (client or _client(base_url, api_key)).with_options(max_retries=0)
        self._options = {"stream_options": {"include_usage": True}, **(options or {})}
        self._narrowest = narrowest_schemas
        host = self._client.base_url.host
        name = "OpenAI" if host == "api.openai.com" else f"the model's server {host}"
        self._provider = Provider(name, [self._client.api_key], patience)

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        names = Names(tool.name for tool in run.tools)
        reader = Reader(names, f"{run.id}.{run.depth}")
        request = request_of(
            run,
            names,
            instructions=self.instructions,
            narrowest=self._narrowest,
            options={"model": self.model, **self._options},
        )
        said: Any = self._provider.items(run, request, self._send, reader)
        async with aclosing(said):
            async for item in said:
                yield item
        run.finish_reason = reader.finish_reason
        run.count_usage(provider=self._provider.name, model=self.model, **reader.usage)

    async def _send(self, request: Mapping[str, Json]) -> Any:
        """Raw events: the library's own objects would cost more than all else that is done."""
        return await self._client.post(
            "/chat/completions",
            body={**request, "stream": True},
            cast_to=object,
            stream=True,
            stream_cls=AsyncStream[object],
        )


def _client(base_url: str | None, api_key: str | None) -> AsyncOpenAI:
    """Its time-outs and retries are ours: see `model.patience`. A history goes to no other host."""
    if base_url is None:
        api_key = key_of("OpenAIChat", "OPENAI_API_KEY", api_key)
    return AsyncOpenAI(
        base_url=base_url,
        api_key=api_key or NO_KEY,
        timeout=None,
        http_client=DefaultAsyncHttpxClient(follow_redirects=False, timeout=None),
    )
