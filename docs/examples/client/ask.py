"""Sends a message and prints the answer: `python ask.py HOME SESSION MESSAGE`. The final answer is on stdout."""
import sys

from limulus_client import Limulus

texts = {}
for event in Limulus(sys.argv[1]).run(sys.argv[2], sys.argv[3]):
    if event["stream"] == "assistant" and event["type"] == "delta":
        texts[event["effect"]] = texts.get(event["effect"], "") + event["text"]
        print(event["text"], end="", flush=True, file=sys.stderr)
    elif event["stream"] == "assistant" and event["type"] == "struck":
        # An interrupted request is sent again: its text is retracted and not part of the answer.
        del texts[event["effect"]]
print("".join(texts.values()))
