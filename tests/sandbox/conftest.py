"""A sandbox served in this process on a free port, and clients that talk to it over real HTTP."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import pytest

from sandbox import app

ECHO_TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}


@dataclass
class Served:
    """One running sandbox."""

    url: str
    home: Path
    http: aiohttp.ClientSession
    stack: AsyncExitStack
    tools: list[dict[str, Any]] = field(default_factory=lambda: [ECHO_TOOL])

    @cached_property
    def client(self) -> anthropic.AsyncAnthropic:
        """The real SDK, made when a test first needs it."""
        client = anthropic.AsyncAnthropic(base_url=self.url, api_key="sandbox", max_retries=0)
        self.stack.push_async_callback(client.close)
        return client

    def body(self, messages: Any = "go", **more: Any) -> dict[str, Any]:
        """A request body; a string is one user message."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return {"model": "dayflow-sandbox-1", "max_tokens": 100, "tools": self.tools, "messages": messages} | more

    async def post(self, body: Any, path: str = "/v1/messages", **headers: str) -> tuple[int, Any]:
        """Status and JSON of a raw POST."""
        async with self.http.post(self.url + path, json=body, headers=headers) as response:
            return response.status, await response.json()

    async def put(self, path: str, body: Any) -> tuple[int, Any]:
        """Status and JSON of a PUT."""
        async with self.http.put(f"{self.url}/sandbox/{path}", json=body) as response:
            return response.status, await response.json()

    async def delete(self, path: str) -> None:
        """A DELETE that has to work."""
        async with self.http.delete(f"{self.url}/sandbox/{path}") as response:
            assert response.status == 200

    async def play(self, *turns: dict[str, Any], **more: Any) -> None:
        """Play these turns from now on."""
        assert (await self.put("script", {"turns": list(turns), **more}))[0] == 200

    async def journal(self, query: str = "") -> list[dict[str, Any]]:
        """The journal's lines."""
        async with self.http.get(f"{self.url}/sandbox/journal{query}") as response:
            lines: list[dict[str, Any]] = await response.json()
            return lines

    async def ask(self, messages: Any = "go", **more: Any) -> anthropic.types.Message:
        """The final message of a streamed call through the SDK."""
        async with self.client.messages.stream(**self.body(messages, **more)) as stream:
            return await stream.get_final_message()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    runner, port = await app.start(app.build(tmp_path), 0)
    url = f"http://127.0.0.1:{port}"
    async with aiohttp.ClientSession() as http, AsyncExitStack() as stack:
        yield Served(url, tmp_path, http, stack)
    await runner.cleanup()
