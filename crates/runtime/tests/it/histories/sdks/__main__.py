"""Sends requests through the official clients of OpenAI and Anthropic to a server, and holds each against the types that
the providers publish of their requests: no field that they do not know, none of another type, none missing.

    python sdks http://127.0.0.1:PORT < requests

A line of the input is {"number": …, "api": …, "body": {…}, "is_bad": …}. The server says which rules a request breaks; a
good one must come through, a bad one must be refused, by the types or by the server. What does not hold is printed, one a
line; the last line is `N sent, M wrong`. What may not live here: rules of a conversation.
"""

import asyncio
import json
import sys
import typing

# As `Iterable` a list would be checked when somebody reads it, and nobody does.
typing.Iterable = typing.List

import anthropic  # noqa: E402
import openai  # noqa: E402
from anthropic.types.message_create_params import MessageCreateParamsStreaming  # noqa: E402
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming  # noqa: E402
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming  # noqa: E402
from pydantic import TypeAdapter, ValidationError  # noqa: E402
from typing_extensions import is_typeddict  # noqa: E402

AT_ONCE = 16


def forbid_other_fields():
    for name, module in list(sys.modules.items()):
        if name.startswith(("openai.types", "anthropic.types")):
            for known in vars(module).values():
                if is_typeddict(known):
                    known.__pydantic_config__ = {"extra": "forbid", "arbitrary_types_allowed": True}


class Judge:
    def __init__(self, server):
        forbid_other_fields()
        self.types = {
            "anthropic": TypeAdapter(MessageCreateParamsStreaming),
            "openai-chat": TypeAdapter(CompletionCreateParamsStreaming),
            "openai-responses": TypeAdapter(ResponseCreateParamsStreaming),
        }
        claude = anthropic.AsyncAnthropic(base_url=server, api_key="none", max_retries=0)
        gpt = openai.AsyncOpenAI(base_url=server + "/v1", api_key="none", max_retries=0)
        self.send = {
            "anthropic": claude.messages.create,
            "openai-chat": gpt.chat.completions.create,
            "openai-responses": gpt.responses.create,
        }
        self.turn = asyncio.Semaphore(AT_ONCE)

    def refused_by_types(self, request):
        try:
            self.types[request["api"]].validate_python(request["body"])
        except ValidationError as error:
            # Of the variants of a union the one that fits best goes deepest.
            deepest = max(error.errors(include_url=False), key=lambda error: len(error["loc"]))
            return "%s at %s" % (deepest["msg"], ".".join(map(str, deepest["loc"])))
        return None

    async def refused_by_server(self, request):
        try:
            number = {"x-number": str(request["number"])}
            async for _ in await self.send[request["api"]](**request["body"], extra_headers=number):
                pass
        except (TypeError, anthropic.APIError, openai.APIError) as error:
            return str(error)
        return None

    async def judge(self, request):
        """What is wrong with this request, or with those who should have seen it."""
        async with self.turn:
            by_types = self.refused_by_types(request)
            by_server = await self.refused_by_server(request)
        refused = by_types or by_server
        if request["is_bad"]:
            return None if refused else "taken, though it is bad"
        return refused


async def main(server):
    judge = Judge(server)
    requests = [json.loads(line) for line in sys.stdin]
    found = await asyncio.gather(*(judge.judge(request) for request in requests))
    wrong = [(request, what) for request, what in zip(requests, found) if what]
    for request, what in wrong[:20]:
        print(request["number"], request["api"], what)
    print("%d sent, %d wrong" % (len(requests), len(wrong)))
    return 1 if wrong else 0


sys.exit(asyncio.run(main(sys.argv[1])))
