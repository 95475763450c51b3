"""A client of `limulus serve`: one JSON object a line over the socket of a home. It needs only Python 3.9."""
import itertools
import json
import socket
import sys
import time
import uuid


class Limulus:
    """A connection to the owner of a home. If the owner goes away, `run` waits for the next one."""

    def __init__(self, home):
        self.path, self.ids, self.connection, self.lines = home + "/limulus.sock", itertools.count(1), None, None

    def connect(self):
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(self.path)
        self.lines = self.connection.makefile("r", encoding="utf-8", newline="\n")
        client = {"id": "limulus_client.py", "version": "1", "platform": sys.platform, "mode": "cli"}
        return self.call("connect", minProtocol=1, maxProtocol=1, client=client)

    def send(self, method, **params):
        request = {"type": "req", "id": str(next(self.ids)), "method": method, "params": params}
        self.connection.sendall(json.dumps(request).encode() + b"\n")
        return request["id"]

    def receive(self):
        line, gone = self.lines.readline(), {"message": "the owner went away", "retryable": True}
        frame = json.loads(line) if line.endswith("\n") else {"ok": False, "error": gone}
        if frame.get("ok") is False:
            error = frame["error"]
            raise (ConnectionError if error.get("retryable") else RuntimeError)(error["message"])
        return frame

    def call(self, method, **params):
        asked = self.send(method, **params)
        return next(frame for frame in iter(self.receive, None) if frame.get("id") == asked)["payload"]

    def run(self, session, message):
        """Sends a message and yields each event of its session once, until its run has ended, whoever owns the home."""
        key, cursor, run, ended = str(uuid.uuid4()), {}, None, set()
        while run not in ended:
            try:
                self.connect()
                subscribed = self.call("events.subscribe", session=session, **cursor)
                cursor = cursor or {"from": subscribed["cursor"]}
                asked = self.send("agent", message=message, sessionKey=session, idempotencyKey=key)
                while run not in ended:
                    frame = self.receive()
                    if frame.get("id") == asked:
                        run = frame["payload"]["runId"]
                    elif frame.get("event") == "agent":
                        event, cursor = frame["payload"], {"from": frame["payload"]["cursor"]}
                        if event["stream"] == "lifecycle" and event["type"] in ("end", "error"):
                            ended.add(event["run"])
                        yield event
            except OSError:
                time.sleep(0.1)
