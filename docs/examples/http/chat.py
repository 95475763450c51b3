"""Asks an agent through the official client of OpenAI's API: at once, as it is written, and in the newer form of the API.

    pip install openai
    limulus serve &
    export OPENAI_BASE_URL=http://127.0.0.1:18789/v1 OPENAI_API_KEY=$(limulus gateway token)
    python chat.py "What is in this folder?"
"""

import sys

from openai import OpenAI

client = OpenAI()
asked = sys.argv[1] if len(sys.argv) > 1 else "What is in this folder?"
print("agents:", ", ".join(model.id for model in client.models.list()))

question = [{"role": "user", "content": asked}]
answer = client.chat.completions.create(model="main", messages=question)
print(answer.choices[0].message.content)
print(f"({answer.choices[0].finish_reason}, {answer.usage.total_tokens} tokens)")

# With a name of the user the session remembers: only the new message is sent on.
for part in client.chat.completions.create(model="main", user="ada", messages=question, stream=True):
    if part.choices:
        print(part.choices[0].delta.content or "", end="", flush=True)
print()

# A response goes on in the session of the one that it names.
first = client.responses.create(model="main", input=asked)
with client.responses.stream(model="main", input="And now?", previous_response_id=first.id) as stream:
    for event in stream:
        if event.type == "response.output_text.delta":
            print(event.delta, end="", flush=True)
    print(f" ({stream.get_final_response().status})")
