"""A fake server in a process of its own: `streams` at `rate` chunks a second in all."""

import asyncio
import sys
import time

import uvloop
from aiohttp import web

CHUNK = (
    b'data: {"id":"cmpl-0123456789abcdef","object":"text_completion","created":1764500000,'
    b'"model":"meta-llama/Llama-3.1-8B-Instruct","choices":[{"index":0,"text":" amber",'
    b'"logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,'
    b'"token_ids":null}],"usage":{"prompt_tokens":16,"total_tokens":%d,"completion_tokens":%d}}\n\n'
)


async def serve(streams: int, rate: float) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        tokens = (await request.json())["max_tokens"]
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        transport = request.transport
        assert transport is not None
        begun = time.monotonic()
        for token in range(1, tokens + 1):
            data = CHUNK % (token + 16, token)
            transport.write(b"%x\r\n%b\r\n" % (len(data), data))
            await asyncio.sleep(max(0.0, begun + token * streams / rate - time.monotonic()))
        await response.write(b"data: [DONE]\n\n")
        return response

    app = web.Application()
    app.router.add_post("/v1/completions", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.sleep(3600)


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), float(sys.argv[2])))
