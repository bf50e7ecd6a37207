"""The codec server: clear text for the token, and for the one web page whose browser came by a ticket; else nothing."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from google.protobuf import json_format
from homes import free_ports
from temporalio.api.common.v1 import Payloads

from client import codec_server
from client.converter import converter
from domain import errors
from store import seal
from store.settings import Settings

ONE, OTHER = seal.new_key("one"), seal.new_key("other")
TOKEN = "a-token-of-the-tests"
WORDS = "SENTINEL"


@pytest.fixture
def settings(tmp_path) -> Settings:
    port, ui_port = free_ports(2)
    return Settings(
        DAYFLOW_HOME=tmp_path,
        DAYFLOW_ENCRYPTION_KEYS=f"{ONE},{OTHER}",
        DAYFLOW_CODEC_TOKEN=TOKEN,
        DAYFLOW_CODEC_PORT=port,
        DAYFLOW_UI_PORT=ui_port,
    )


@pytest.fixture
async def ask(settings) -> AsyncIterator[Any]:
    """Send a request; status, headers and text of the answer."""
    runner = web.AppRunner(codec_server.CodecServer(settings).application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", settings.codec_port).start()
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:

        async def send(what: str, body: Any = None, method: str = "POST", **headers: str) -> tuple[int, Any, str]:
            data = body if isinstance(body, str | bytes | None) else json.dumps(body)
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            url = f"{codec_server.endpoint(settings)}/{what}"
            async with session.request(method, url, data=data, headers=named, allow_redirects=False) as answer:
                return answer.status, answer.headers, await answer.text()

        yield send
    await runner.cleanup()


@pytest.fixture
async def sealed(settings) -> dict[str, Any]:
    """What the web UI sends for a history: payloads, sealed under either key, and one in clear."""
    both = [*await converter(settings).encode([WORDS])]
    both += await converter(Settings(DAYFLOW_ENCRYPTION_KEYS=OTHER)).encode([WORDS])
    both += await converter(Settings()).encode([WORDS])
    told: dict[str, Any] = json_format.MessageToDict(Payloads(payloads=both))
    return told


def words(text: str) -> list[Any]:
    """The values in an answer."""
    return [base64.b64decode(one["data"]).decode() for one in json.loads(text)["payloads"]]


def page(settings: Settings) -> str:
    """The web UI's origin."""
    return f"http://127.0.0.1:{settings.ui_port}"


async def cookie(ask, settings) -> str:
    """The cookie that a browser gets by `dayflow open`."""
    link = await asyncio.to_thread(codec_server.link, settings)
    status, headers, _ = await ask(link.rpartition("/")[2], method="GET")
    assert (status, headers["Location"]) == (303, page(settings))
    return str(headers["Set-Cookie"])


async def test_with_the_token_payloads_are_decoded(ask, sealed):
    status, _, text = await ask("decode", sealed, Authorization=f"Bearer {TOKEN}")

    assert (status, words(text)) == (200, [f'"{WORDS}"'] * 3)


async def test_what_was_encoded_there_is_decoded_there(ask, sealed):
    _, _, text = await ask("encode", sealed, Authorization=f"Bearer {TOKEN}")
    _, _, back = await ask("decode?preserveStorageRefs=true", text, Authorization=f"Bearer {TOKEN}")

    assert WORDS not in base64.b64decode(json.loads(text)["payloads"][2]["data"]).decode(errors="replace")
    assert json.loads(back) == sealed


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}], ids=str)
@pytest.mark.parametrize("what", ["decode", "encode"])
async def test_without_the_token_nothing_is_told(ask, sealed, what, headers):
    status, _, text = await ask(what, sealed, **headers)

    assert status == 401
    assert "payloads" not in text


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:8233", "https://127.0.0.1"])
async def test_another_page_gets_nothing_even_with_the_token(ask, sealed, origin):
    status, headers, text = await ask("decode", sealed, Authorization=f"Bearer {TOKEN}", Origin=origin)
    before, preflight, _ = await ask("decode", method="OPTIONS", Origin=origin)

    assert (status, before) == (403, 403)
    assert "payloads" not in text
    assert "Access-Control-Allow-Origin" not in {*headers, *preflight}


async def test_the_web_ui_passes_the_preflight(ask, settings):
    asked = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "content-type,x-namespace"}

    status, headers, _ = await ask("decode", method="OPTIONS", Origin=page(settings), **asked)

    assert status == 204
    assert headers["Access-Control-Allow-Origin"] == page(settings)
    assert headers["Access-Control-Allow-Credentials"] == "true"
    assert {"content-type", "x-namespace"} <= set(headers["Access-Control-Allow-Headers"].lower().split(", "))


async def test_the_web_ui_reads_by_the_cookie_of_a_ticket(ask, settings, sealed):
    given = await cookie(ask, settings)

    status, headers, text = await ask("decode", sealed, Origin=page(settings), Cookie=given.partition(";")[0])

    assert (status, words(text)) == (200, [f'"{WORDS}"'] * 3)
    assert headers["Access-Control-Allow-Origin"] == page(settings)
    assert {"HttpOnly", "SameSite=Strict", "Path=/dayflow-codec"} <= set(given.split("; "))
    assert TOKEN not in given


async def test_a_cookie_counts_for_the_web_ui_alone(ask, settings, sealed):
    given = (await cookie(ask, settings)).partition(";")[0]

    assert (await ask("decode", sealed, Cookie=given))[0] == 401
    assert (await ask("decode", sealed, Cookie=given, Origin="http://evil.example"))[0] == 403
    assert (await ask("ticket", Cookie=given, Origin=page(settings)))[0] == 401


async def test_a_link_is_good_once(ask, settings):
    link = await asyncio.to_thread(codec_server.link, settings)
    login = link.rpartition("/")[2]

    assert (await ask(login, method="GET"))[0] == 303
    assert (await ask(login, method="GET"))[0] == 403
    assert (await ask("login?ticket=guessed", method="GET"))[0] == 403


@pytest.mark.parametrize("body", ["", "{", '{"payloads": 7}', '{"strange": []}', b"\xff"], ids=range(5))
async def test_a_body_that_is_none_is_refused_in_words(ask, body):
    status, _, text = await ask("decode", body, Authorization=f"Bearer {TOKEN}")

    assert status == 400
    assert "payloads" in text


async def test_what_cannot_be_opened_comes_back_as_it_was_and_hides_nothing_else(ask, sealed):
    junk = {"metadata": {"encoding": base64.b64encode(b"binary/encrypted").decode()}, "data": "AAEC"}

    status, _, text = await ask("decode", {"payloads": [junk, *sealed["payloads"]]}, Authorization=f"Bearer {TOKEN}")

    assert status == 200
    assert json.loads(text)["payloads"][0] == junk
    assert words(text)[1:] == [f'"{WORDS}"'] * 3


async def test_no_link_without_a_codec_server(settings):
    with pytest.raises(errors.Unreachable, match="`dayflow up` starts it"):
        await asyncio.to_thread(codec_server.link, settings)


def test_the_token_is_of_its_own_or_made_of_the_first_key():
    made = Settings(DAYFLOW_ENCRYPTION_KEYS=ONE).codec_token

    assert made == Settings(DAYFLOW_ENCRYPTION_KEYS=f"{ONE},{OTHER}").codec_token
    assert made != Settings(DAYFLOW_ENCRYPTION_KEYS=OTHER).codec_token
    assert made not in ONE
    assert Settings(DAYFLOW_ENCRYPTION_KEYS=ONE, DAYFLOW_CODEC_TOKEN=TOKEN).codec_token == TOKEN
