"""Asks an agent through the official client of OpenAI's API, once at once and once as it is written.

    pip install openai
    limulus serve &
    export OPENAI_BASE_URL=http://127.0.0.1:18789/v1 OPENAI_API_KEY=$(limulus gateway token)
    python chat.py "What is in this folder?"
"""

import sys

from openai import OpenAI

client = OpenAI()
print("agents:", ", ".join(model.id for model in client.models.list()))

question = [{"role": "user", "content": sys.argv[1]}]
answer = client.chat.completions.create(model="main", messages=question)
print(answer.choices[0].message.content)
print(f"({answer.choices[0].finish_reason}, {answer.usage.total_tokens} tokens)")

# With a name of the user the session remembers: only the new message is sent on.
for part in client.chat.completions.create(model="main", user="ada", messages=question, stream=True):
    if part.choices:
        print(part.choices[0].delta.content or "", end="", flush=True)
print()
