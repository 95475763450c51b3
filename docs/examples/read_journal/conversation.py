"""The fold: it makes a session from the entries of a line, and uses nothing else."""

import copy

from home import TOKENS

# After a failure of these classes it is unknown whether the provider processed the request.
UNKNOWN = ("timeout", "stalled", "network", "malformed", "unknown")
# The final states of a leg.
OVER = ("dropped", "cancelled", "refused", "ended")
# Fields of an accepted message that its row in a list does not have.
BESIDE = {"attachments", "mode_by", "ends", "origin", "reply_to", "masked"}


class Run:
    """A run that has started."""

    def __init__(self, run, session, at, seq, settings, inputs):
        self.run, self.session, self.inputs = run, session, inputs
        self.started_at, self.ended_at, self.first_seq, self.settings = at, None, seq, settings
        # The branch in which it ended.
        self.branch = None
        self.outcome, self.failures, self.candidate = None, [], 0
        self.usage, self.cost = dict.fromkeys(TOKENS, 0), 0
        # The reservation of the open request, in micro-dollars, and whether its first byte has arrived.
        self.reserved, self.is_open = 0, False
        # The reservations of the unfinished summary and title.
        self.summary = self.title = 0
        self.segments, self.kept, self.calls = [], [], []
        self.open_request = None

    @classmethod
    def of_snapshot(cls, state, session):
        run = cls(state["id"], session, state["started_at"], state["first_seq"], state["settings"], state["inputs"])
        run.candidate, run.usage, run.failures = state["counters"]["candidate"], state["usage"], state["trace"]
        run.segments, run.kept = state["step"]["segments"], state["step"]["kept"]
        run.cost = state["spent"].get("cost", 0)
        phase = state["phase"] if isinstance(state["phase"], dict) else {}
        stage = phase.get("preparing", {}).get("stage", {})
        sent = phase.get("streaming", stage if isinstance(stage, dict) else {}).get("sent") or {}
        run.reserved, run.is_open = (sent.get("reserved") or {}).get("cost", 0), "streaming" in phase
        run.summary = ((phase.get("compacting") or {}).get("reserved") or {}).get("cost", 0)
        run.title = ((state.get("title") or {}).get("reserved") or {}).get("cost", 0)
        for call in state["step"]["calls"]:
            settled = call["stage"].get("settled") if isinstance(call["stage"], dict) else None
            run.calls.append({"id": call["id"], "settled": settled, "asks": call["stage"] == "asking"})
        return run

    def spend_reserved(self):
        """Charges the reservation of a request with an unknown outcome."""
        self.cost, self.reserved, self.is_open = self.cost + self.reserved, 0, False

    def lose_summary(self):
        """Charges the reservation of a summary that begins again or never ends."""
        self.cost += self.summary

    def error(self):
        if not self.failures:
            return None
        return self.failures[-1]["message"]


class Session:
    """A folded session. `faults` are entries that Limulus cannot have written there: (place, what)."""

    def __init__(self):
        self.session = self.key = self.agent = self.created_at = None
        self.messages, self.items, self.runs, self.asked = {}, [], {}, set()
        self.dropped = []
        self.title, self.model_title, self.visibility, self.begun_at = None, None, "listed", None
        self.run, self.missing_calls, self.faults, self.place = None, [], [], None
        self.lifecycle, self.last_activity = "initializing", 0
        # Becomes False at the first entry that cannot be folded.
        self.is_whole = True

    @classmethod
    def of_snapshot(cls, state):
        """The session in the state of a snapshot."""
        self = cls()
        state = copy.deepcopy(state)
        self.session, self.key, self.agent = state["id"], state["key"], state["agent"]
        self.created_at, self.messages = state["created_at"], state["messages"]
        self.last_activity, self.dropped = state["last_activity"], state["dropped"]
        self.title, self.begun_at = state.get("title"), state.get("begun_at")
        self.model_title = state.get("model_title")
        self.visibility = state.get("visibility", "listed")
        transcript = state["transcript"]
        self.items = [{"seq": seq, **item} for seq, item in zip(transcript["seqs"], transcript["items"])]
        life = state["lifecycle"]
        self.lifecycle, held = next(iter(life.items())) if isinstance(life, dict) else (life, None)
        # `active` and `suspended` have the run as their value, `error` and `recovering` as a field.
        run = (held.get("run") if held and "step" not in held else held) or state["held"]
        if run:
            self.run = Run.of_snapshot(run, self.session)
            self.runs[self.run.run] = self.run
            self.asked = {call["id"] for call in self.run.calls if call["asks"]}
            self.missing_calls = [call["id"] for call in self.run.calls]
        return self

    def transcript(self):
        """The conversation in the form of a snapshot."""
        return [{name: value for name, value in item.items() if name != "seq"} for item in self.items]

    def queued(self):
        return [id_ for id_, message in self.messages.items() if message["state"] == "queued"]

    def fault(self, what):
        self.faults.append((self.place, what))

    def apply(self, kind, event, seq, at, place):
        """Folds one entry; `place` is the place of its faults."""
        self.place = place
        # In an idle session the start or end of an owner is no activity.
        if self.run or self.queued() or kind not in ("opened", "closed"):
            self.last_activity = max(self.last_activity, at)
        act = getattr(self, "on_" + kind, None)
        if act:
            act(event, seq, at)

    def add(self, seq, name, item):
        if name != "result" and self.missing_calls:
            self.fault(f"call {self.missing_calls[0]} has no result before the next item")
            self.missing_calls = []
        if name == "assistant":
            self.missing_calls = [call["id"] for call in item["calls"]]
        if name == "result":
            if item["call"] in self.missing_calls:
                self.missing_calls.remove(item["call"])
            else:
                self.fault(f"call {item['call']} has a result, but the call was not requested")
        self.items.append({"seq": seq, name: item})

    def on_created(self, event, seq, at):
        self.session, self.key, self.agent, self.created_at = event["session"], event["key"], event["agent"], at

    def on_opened(self, event, seq, at):
        self.last_activity = max(self.last_activity, event["last_activity"])
        if self.run and self.lifecycle == "active":
            self.run.lose_summary()

    def on_resumed(self, event, seq, at):
        if self.run:
            self.run.lose_summary()

    def on_compaction_begun(self, event, seq, at):
        if self.run:
            self.run.summary = (event.get("reserved") or {}).get("cost", 0)

    def on_compaction_failed(self, event, seq, at):
        if self.run:
            lost = self.run.summary if event["failure"]["class"] in UNKNOWN else 0
            self.run.cost, self.run.summary = self.run.cost + max(lost, event.get("cost", 0)), 0
            for name in TOKENS:
                self.run.usage[name] += event.get("usage", {}).get(name, 0)

    def on_title_asked(self, event, seq, at):
        if self.run:
            self.run.title = (event.get("reserved") or {}).get("cost", 0)

    def on_title_ended(self, event, seq, at):
        self.model_title = event.get("text") or self.model_title
        if self.run:
            lost = self.run.title if (event.get("failure") or {}).get("class") in UNKNOWN else 0
            self.run.cost, self.run.title = self.run.cost + max(lost, event.get("cost", 0)), 0
            for name in TOKENS:
                self.run.usage[name] += event.get("usage", {}).get(name, 0)

    def on_message_accepted(self, event, seq, at):
        id_, self.visibility = event["message"], "listed"
        message = {"body": event["body"], "key": event["key"], "mode": event["mode"], "state": "queued", "run": id_}
        if event.get("place") == "both":
            message["steer"] = {"state": "queued", "run": id_}
        if event["overrides"].get("compact"):
            message["compacts"] = True
        message.update({name: event[name] for name in BESIDE if event.get(name)})
        self.messages[id_] = {**message, "accepted_at": at}

    def settle(self, id_, leg, state, run=None):
        """Sets the state of a leg. A steer that was merged into the followup of its message ends with it."""
        message = self.messages[id_]
        steer = message.get("steer")
        one = steer if steer and leg == "steer" else message
        merged = steer and one is message and steer["state"] == "merged" and steer["run"] == message["run"]
        one.update(state=state, run=run or one["run"])
        if merged and state in OVER:
            steer.update(state=state, run=message["run"])

    def said(self, id_):
        """The fields of a user item that come from its message."""
        files = self.messages[id_].get("attachments")
        return {"message": id_, "body": self.messages[id_]["body"], **({"attachments": files} if files else {})}

    def leg_in(self, id_, run):
        return "steer" if self.messages[id_].get("steer") and run != id_ else "followup"

    def on_message_settled(self, event, seq, at):
        id_, leg = event["message"], event.get("leg")
        message = self.messages.get(id_)
        if not message:
            return
        steer = message.get("steer")
        waits = ["steer"] if steer and steer["state"] == "queued" else []
        waits += ["followup"] if message["state"] == "queued" else []
        is_steer = leg == "steer" and steer
        meant = [one for one in waits if leg is None or (one == "steer") == bool(is_steer)]
        for one in meant or ["steer" if is_steer else "followup"]:
            self.settle(id_, one, event["state"], event["run"])
        if event.get("told"):
            self.dropped = (self.dropped + [message["body"]])[-20:]
        if event["state"] == "steered":
            self.add(seq, "user", {**self.said(id_), "steer": True})
            if self.run:
                self.run.inputs.append(id_)

    def on_run_started(self, event, seq, at):
        if self.run:
            self.fault(f"run {event['run']} starts while run {self.run.run} is unfinished")
        self.run = Run(event["run"], self.session, at, seq, event["settings"], list(event["inputs"]))
        self.runs[event["run"]] = self.run
        for id_ in event["inputs"]:
            if id_ in self.messages:
                state = "started" if id_ == event["run"] else "merged"
                self.settle(id_, self.leg_in(id_, event["run"]), state, event["run"])
                if self.messages[id_].get("compacts"):
                    continue
                item = self.said(id_)
                if self.dropped:
                    item["dropped"], self.dropped = self.dropped, []
                self.add(seq, "user", item)

    def on_reset(self, event, seq, at):
        self.items, self.missing_calls, self.model_title = [], [], None

    def on_session_labelled(self, event, seq, at):
        if event.get("title"):
            self.title = event["title"] if event["title"]["bytes"] > 0 else None
            self.model_title = None
        self.visibility = event.get("visibility", self.visibility)
        if event.get("visibility") == "deleted":
            self.on_reset(event, seq, at)
            self.dropped, self.title, self.begun_at = [], None, at

    def on_compacted(self, event, seq, at):
        def stays(item):
            pinned = "user" in item and item["user"]["message"] in event.get("pinned", [])
            return "summary" not in item and (item["seq"] >= event["kept_from"] or pinned)

        summary = {"seq": seq, "summary": {"compaction": event["compaction"], "body": event["summary"]}}
        self.items = [summary] + [item for item in self.items if stays(item)]
        for name in TOKENS if self.run else ():
            self.run.usage[name] += event.get("usage", {}).get(name, 0)
        if self.run:
            self.run.cost, self.run.summary = self.run.cost + event.get("cost", 0), 0

    def on_results_cut(self, event, seq, at):
        cut = {result["call"]: result["output"] for result in event["results"]}
        for item in self.items:
            if "result" in item and item["result"]["call"] in cut:
                item["result"] = {**item["result"], "output": cut[item["result"]["call"]]}

    def on_noted(self, event, seq, at):
        self.items.append({"seq": seq, "note": {"body": event["body"]}})

    def on_uncompacted(self, event, seq, at):
        if not self.items or self.items[0].get("summary", {}).get("compaction") != event["compaction"]:
            return
        restored = [{"seq": of["seq"], **of["item"]} for of in event["restored"]]
        self.items = restored + [item for item in self.items[1:] if item not in restored]

    def on_step_begun(self, event, seq, at):
        if self.run:
            self.run.segments, self.run.kept, self.run.calls = [], [], []

    def on_request_sent(self, event, seq, at):
        if self.run:
            self.run.candidate = event["candidate"]
            self.run.spend_reserved()
            self.run.reserved = (event.get("reserved") or {}).get("cost", 0)

    def on_budget_asked(self, event, seq, at):
        if self.run:
            self.run.spend_reserved()

    on_wait_began = on_budget_asked

    def on_request_opened(self, event, seq, at):
        if self.run:
            self.run.is_open = True
            self.run.open_request = event["request"]
            for id_ in self.run.inputs:
                message = self.messages.get(id_, {})
                leg = self.leg_in(id_, self.run.run) if message else None
                one = message.get("steer") if leg == "steer" else message
                if one and one["state"] == "steered":
                    self.settle(id_, leg, "delivered", self.run.run)

    def on_stream_cut(self, event, seq, at):
        if self.run:
            self.run.spend_reserved()
            self.run.open_request = None
            self.run.kept += [event["text"]] if event["text"] else []

    def on_failed(self, event, seq, at):
        if self.run:
            if not self.run.is_open and event["failure"]["class"] not in UNKNOWN:
                self.run.reserved = 0
            self.on_stream_cut(event, seq, at)
            self.run.failures.append(event["failure"])

    def on_text_struck(self, event, seq, at):
        if self.run:
            self.run.kept = []

    def on_message_sealed(self, event, seq, at):
        fields = ("id", "provider_id", "tool", "arguments")
        calls = [{field: call[field] for field in fields} for call in event["calls"]]
        item = {"request": event["request"], "text": event.get("text"), "reasoning": event.get("reasoning"), "calls": calls}
        item.update({name: event[name] for name in ("blocks", "images") if event.get(name)})
        if item["text"] or calls or item.get("images"):
            self.add(seq, "assistant", item)
        for call in event["calls"]:
            if call.get("answer"):
                self.add(seq, "result", {"call": call["id"], "output": call["answer"], "is_error": True})
        if not self.run:
            return
        run, run.open_request, run.kept = self.run, None, []
        run.segments += [event["text"]] if event.get("text") else []
        for name in TOKENS:
            run.usage[name] += event["usage"][name]
        run.cost += event.get("cost", 0)
        if event["next"] != "cut":
            run.reserved, run.is_open = 0, False
        if event["next"] == "calls":
            run.calls += [{"id": call["id"], "settled": None, "asks": False} for call in event["calls"]]

    def on_call_asked(self, event, seq, at):
        self.asked.add(event["call"])

    def on_ask_answered(self, event, seq, at):
        self.asked.discard(event["call"])

    def on_call_settled(self, event, seq, at):
        self.asked.discard(event["call"])
        calls = self.run.calls if self.run else []
        for call in calls:
            if call["id"] == event["call"] and not call["settled"]:
                call["settled"] = event
        if calls and all(call["settled"] for call in calls):
            self.run.calls = []
            for call in calls:
                is_error = call["settled"]["outcome"] != "done"
                item = {"call": call["id"], "output": call["settled"]["output"], "is_error": is_error}
                files = call["settled"].get("attachments")
                self.add(seq, "result", {**item, **({"attachments": files} if files else {})})

    def on_lifecycle_changed(self, event, seq, at):
        if self.run and (event["from"], event["to"]) == ("ready", "active"):
            self.run.lose_summary()
        self.lifecycle = event["to"]

    def on_run_ended(self, event, seq, at):
        run, self.run = self.run, None
        if run is None or run.run != event["run"]:
            self.fault(f"run {event['run']} ends, but it is not the unfinished run")
            return
        run.spend_reserved()
        run.lose_summary()
        run.outcome, run.ended_at, run.branch = event["outcome"], at, self.place["branch"]
        run.failures = [event["failure"]] if event["failure"] else []
        if event["text"] != run.segments:
            self.fault("the texts of the run do not match its last step")
        if event["usage"] != run.usage:
            self.fault("the usage of the run does not match the sum of its messages")
        for id_ in run.inputs:
            if id_ in self.messages:
                self.settle(id_, self.leg_in(id_, run.run), "ended", run.run)
