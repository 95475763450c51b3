"""Compares the views (the rows of lists) with the folds. A mismatch is a finding like any other."""

import json
import uuid

from conversation import BESIDE
from home import FOREIGN, TOKENS, Damage, id_of

ROWS = {
    "view_sessions": """session key agent branch created_at last_activity lifecycle run_state run queued unfinished
        trouble""",
    "view_runs": """run session branch state outcome started_at ended_at settings model usage cost tokens calls wall_ms
        first_seq error""",
    "view_receipts": "message session key body mode state run steer accepted_at",
}
# Fields that rows of older versions, or some rows, do not have.
OPTIONAL = {"steer", "tokens", "calls", "wall_ms", "totals", "stop_reason", "checkpoint", "title", "model_title", "visibility", "begun_at"}
DAY_MS = 86_400_000


def compare_views(verifier, row, folded):
    """Compares all rows of one session. If a fold began with a snapshot, earlier runs are not compared."""
    views = Views(verifier, row, folded)
    views.compare("view_sessions", "session", {folded.session: views.session_row()})
    views.compare("view_receipts", "message", views.receipts())
    views.compare("view_runs", "run", {id_: views.run_row(run) for id_, run in folded.runs.items()})
    views.usage()
    views.approvals()


class Views:
    """The expected and the stored rows of one session."""

    def __init__(self, verifier, row, folded):
        self.verifier, self.home, self.row, self.folded = verifier, verifier.home, row, folded

    def fault(self, what, **where):
        self.verifier.finding("view", what, session=self.folded.session, **where)

    def compare(self, table, key, expected):
        """Checks that each expected row exists and has the expected values."""
        rows = {}
        for stored in self.home.rows(f"SELECT * FROM {table} WHERE session = ?", self.row["uuid"]):
            self.verifier.checked["views"] += 1
            try:
                row = self.parsed(stored, table, key)
                rows[row[key]] = row
                if row.keys() | OPTIONAL != set(ROWS[table].split()) | OPTIONAL:
                    self.fault(f"a row of {table} has other fields", row=row[key])
            except (Damage, *FOREIGN) as error:
                self.fault(f"a row of {table} cannot be read: {error!r}")
        for id_, wanted in expected.items():
            said = rows.get(id_)
            differs = [name for name in wanted if said is not None and said.get(name) != wanted[name]]
            if said is None or differs:
                what = f"{', '.join(differs)} of {table} does not match the entries" if said else f"not in {table}"
                self.fault(what, row=id_)

    def parsed(self, stored, table, key):
        if table == "view_sessions":
            return json.loads(stored["row"])
        # As between the quotes of a JSON string.
        of_sender = [json.dumps(stored["key"] or "", ensure_ascii=False)[1:-1]] if table == "view_receipts" else []
        return json.loads(self.home.view_row(stored, id_of(stored[key]), id_of(stored["session"]), *of_sender))

    def usage(self):
        """Compares the usage of each run, which has columns of its own in format 1."""
        if self.home.format > 1:
            return
        sql = f"SELECT day, model, {', '.join(TOKENS)} FROM view_usage WHERE run = ?"
        for id_, run in self.folded.runs.items():
            row = self.home.rows(sql, uuid.UUID(id_).bytes).fetchone()
            wanted = (run.started_at // DAY_MS, model(self.home, run), *(run.usage[name] for name in TOKENS))
            if row is None or tuple(row) != wanted:
                self.fault("view_usage does not match the entries", row=id_)

    def approvals(self):
        """Compares the open approval requests."""
        sql = "SELECT call FROM view_approvals WHERE session = ? AND open"
        if {call for (call,) in self.home.rows(sql, self.row["uuid"])} != self.folded.asked:
            self.fault("view_approvals does not match the open approval requests")

    def session_row(self):
        folded, branch = self.folded, id_of(self.home.branches[self.row["branch"]]["uuid"])
        run = folded.run.run if folded.run else None
        same = {name: getattr(folded, name) for name in ("session", "key", "agent", "created_at", "lifecycle")}
        rest = {} if run else {"last_activity": folded.last_activity, "run_state": "idle"}
        labels = {"title": folded.title, "model_title": folded.model_title, "begun_at": folded.begun_at}
        labels["visibility"] = None if folded.visibility == "listed" else folded.visibility
        return {**same, **rest, **labels, "branch": branch, "run": run, "queued": len(folded.queued())}

    def receipts(self):
        rows = {}
        for id_, message in self.folded.messages.items():
            said = {name: value for name, value in message.items() if name not in BESIDE | {"compacts"}}
            rows[id_] = {"message": id_, "session": self.folded.session, **said}
        return rows

    def run_row(self, run):
        ended = {}
        if run.outcome:
            ended = {"state": "completed", "branch": id_of(self.home.branches[run.branch]["uuid"])}
        return {**run_row(self.home, run), **ended}


def run_row(home, run):
    """The row of a run, without the state of an unfinished run: only the engine knows it."""
    same = ("run", "session", "outcome", "started_at", "ended_at", "settings", "usage", "first_seq")
    # A reservation counts until the outcome is known.
    cost = run.cost if run.outcome else run.cost + run.reserved + run.summary
    return {**{name: getattr(run, name) for name in same}, "cost": cost, "model": model(home, run), "error": run.error()}


def model(home, run):
    """`PROVIDER/MODEL` of the current candidate of a run; empty if its settings cannot be read."""
    try:
        candidate = json.loads(home.body(bytes.fromhex(run.settings)))["candidates"][run.candidate]
        return f"{candidate['provider']}/{candidate['model']}"
    except (Damage, *FOREIGN):
        return ""
