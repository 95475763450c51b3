"""Recomputes what a home stores and compares. Each mismatch is a finding with its place; none ends the check."""

import json
import sqlite3
import struct

from conversation import Session
from home import CHAIN_BYTES, EVENT_VERSION, FOREIGN, KINDS, Damage, bodies_in, chain_after, digest, id_of
from views import compare_views


class Verifier:
    """Checks a home: `findings` are the mismatches, `sessions` the folded sessions with their rows."""

    def __init__(self, home):
        self.home, self.findings = home, []
        self.checked = dict.fromkeys(("branches", "entries", "bodies", "snapshots", "progress", "views"), 0)
        # Per branch: its head (seq, chain), and the seqs of entries that cannot be folded.
        self.heads, self.bad = {}, {}
        # The chain of each entry, by branch and seq; None if it is not known.
        self.chains = {}
        self.sessions = []

    def finding(self, what, detail, **where):
        self.findings.append({"what": what, "detail": detail, **where})

    def run(self):
        """Runs every check, in the order of the page."""
        steps = (self.file, self.mark, self.branches, self.bodies, self.snapshots, self.fold, self.progress, self.views)
        for step in steps:
            try:
                step()
            except (sqlite3.Error, *FOREIGN) as error:
                # The names of tables and columns can be corrupt too, not only rows.
                self.finding("file", f"{step.__name__} cannot be read: {error}")

    def views(self):
        """Compares the rows of lists, for every session that was folded to its end."""
        for row, folded in self.sessions:
            if folded.is_whole:
                compare_views(self, row, folded)

    def file(self):
        for (message,) in self.home.rows("PRAGMA integrity_check(20)"):
            if message != "ok":
                self.finding("file", message)

    def mark(self):
        home = self.home
        if home.mark is None:
            return
        position, chain = home.mark
        row = home.rows("SELECT branch, seq, chain FROM entries WHERE position = ?", position).fetchone()
        if row and row["chain"] == chain:
            return
        if row:
            self.finding("mark", "another entry is at its position", position=position, **self.place(row))
        elif (home.one("SELECT max(position) FROM entries") or 0) < position:
            self.finding("mark", "the journal ends before it: acknowledged entries are lost", position=position)
        elif not any(map(home.is_removed, home.rows("SELECT * FROM entries WHERE position > ?", position))):
            self.finding("mark", "no entry is at its position", position=position)

    def place(self, row):
        branch = self.home.branches.get(row["branch"])
        where = {"branch": id_of(branch["uuid"]), "session": id_of(branch["session"])} if branch else {}
        return {**where, "seq": row["seq"]}

    def branches(self):
        for id_, branch in self.home.branches.items():
            self.checked["branches"] += 1
            self.bad[id_] = set()
            self.branch(id_, branch)

    def branch(self, id_, branch):
        """Compares one branch with its chain. After a mismatch the check continues from the next whole chain."""
        # `before` is the chain of the entry before; None if it is not known.
        before, expected, epoch, position = None, 1, 0, 0
        for row in self.home.entries(id_):
            self.checked["entries"] += 1
            where = {**self.place(row), "position": row["position"]}
            anchored = expected == 1 and self.is_anchor(row)
            chain, is_changed = None, False
            if row["seq"] != expected and not anchored:
                self.finding("gap", f"entries {expected} to {row['seq'] - 1} are missing", **where)
                self.bad[id_].add(row["seq"])
            elif not (anchored and row["seq"] > 1):
                if expected == 1:
                    before = self.beginning(row, branch, where)
                chain = self.continued(before, branch, row)
                is_changed = chain is None and before is not None
                if is_changed:
                    self.finding("chain", "the entry does not match its chain", **where)
                    self.bad[id_].add(row["seq"])
            if row["epoch"] < epoch or row["position"] <= position:
                self.finding("order", "its epoch or position is lower than that of the entry before", **where)
            before, expected = chain or whole(row["chain"]), row["seq"] + 1
            self.chains[id_, row["seq"]] = before
            epoch, position = row["epoch"], row["position"]
            # What a changed payload says is no finding of its own.
            if not is_changed or row["payload_hash"]:
                self.payload(id_, row, where)
        self.row_of(branch)
        if expected == 1:
            self.finding("gap", "the branch has no entry", branch=id_of(branch["uuid"]))
        if epoch > (self.home.one("SELECT epoch FROM owner") or 0):
            self.finding("order", f"epoch {epoch} has had no owner yet", branch=id_of(branch["uuid"]))
        self.heads[id_] = (expected - 1, before)

    def continued(self, before, branch, row):
        """The chain of an entry; None if it is not the stored one, as far as that is stored."""
        try:
            numbers = [row[name] for name in ("seq", "epoch", "at", "kind", "version")]
            chain = chain_after(before, branch["uuid"], *numbers, self.home.payload_hash(row))
            return chain if len(row["chain"]) in CHAIN_BYTES and chain.startswith(row["chain"]) else None
        except (Damage, *FOREIGN, struct.error):
            return None

    def row_of(self, branch):
        """Compares the row of a branch with its entries."""
        row = self.home.rows("SELECT at FROM entries WHERE branch = ? AND seq = 1", branch["id"]).fetchone()
        if branch["kind"] not in ("session", "ledger") or (row and row["at"] != branch["created_at"]):
            self.finding("branch", "its row does not match its entries", branch=id_of(branch["uuid"]))

    def is_anchor(self, row):
        sql = "SELECT 1 FROM snapshots WHERE branch = ? AND seq = ?"
        return self.home.is_removed(row) and bool(self.home.one(sql, row["branch"], row["seq"]))

    def beginning(self, row, branch, where):
        """The chain before the first entry of a branch, from its parent."""
        if branch["parent"] is None:
            return bytes(32)
        at = (branch["parent"], branch["parent_seq"])
        chain = self.chains.get(at)
        named = None
        try:
            payload = self.home.payload(row)
            named = bytes.fromhex(json.loads(payload)["hash"]) if payload is not None else None
        except (Damage, *FOREIGN):
            pass
        if at not in self.chains:
            first = self.home.rows("SELECT * FROM entries WHERE branch = ? ORDER BY seq LIMIT 1", branch["parent"])
            first = first.fetchone()
            if not (first and first["seq"] > branch["parent_seq"] and self.is_anchor(first)):
                self.finding("fork", "the parent's entry that it continues is missing", **where)
        elif None not in (named, chain) and named != chain:
            self.finding("fork", "the parent's chain does not match the one that it names", **where)
        return named or chain

    def payload(self, id_, row, where):
        """Checks a payload against its hash, and everything that it refers to."""
        try:
            payload = self.home.payload(row)
        except (Damage, *FOREIGN) as error:
            self.finding("payload", f"the payload cannot be read: {error}", **where)
            self.bad[id_].add(row["seq"])
            return
        if payload is None:
            self.bad[id_].add(row["seq"])
            return
        hash_ = row["payload_hash"]
        if hash_ and digest(payload.encode("utf-8", "surrogateescape")) != hash_:
            self.finding("payload", "the payload does not match its hash", **where)
            self.bad[id_].add(row["seq"])
            return
        if row["kind"] not in KINDS or row["version"] != EVENT_VERSION:
            self.finding("unknown", f"`{row['kind']}` version {row['version']} was written by a newer Limulus", **where)
            self.bad[id_].add(row["seq"])
            return
        try:
            event = json.loads(payload)
            settings = [event["settings"]] if row["kind"] == "run_started" else []
            self.references([(body["hash"], body["bytes"]) for body in bodies_in(event)], settings, where)
        except FOREIGN as error:
            self.finding("payload", f"the payload does not match its kind: {error!r}", **where)
            self.bad[id_].add(row["seq"])

    def references(self, bodies, settings, where):
        for hash_, size in bodies + [(hash_, None) for hash_ in settings]:
            stored = self.home.one("SELECT size FROM bodies WHERE hash = ?", bytes.fromhex(hash_))
            if stored is None:
                self.finding("body", "a body that the entry names is missing", body=hash_, **where)
            elif size not in (None, stored):
                self.finding("body", f"the entry says {size} bytes, the body {stored}", body=hash_, **where)

    def bodies(self):
        for (hash_,) in self.home.rows("SELECT hash FROM bodies").fetchall():
            self.checked["bodies"] += 1
            try:
                self.home.body(hash_)
            except Damage as damage:
                self.finding("body", str(damage), body=hash_.hex())

    def snapshots(self):
        for row in self.home.rows("SELECT branch, seq FROM snapshots").fetchall():
            self.checked["snapshots"] += 1
            where = self.place(row)
            try:
                state = self.home.snapshot(row["branch"], row["seq"])
                if state:
                    self.references([(body["hash"], body["bytes"]) for body in bodies_in(state)], [], where)
                if row["seq"] > self.heads.get(row["branch"], (0, None))[0]:
                    self.finding("snapshot", "its entry is missing", **where)
            except Damage as damage:
                self.finding("snapshot", str(damage), **where)
            except FOREIGN as error:
                self.finding("snapshot", f"it cannot be read: {error!r}", **where)

    def fold(self):
        """Folds the line of every session."""
        for row in self.home.rows("SELECT uuid, key, branch FROM sessions ORDER BY rowid").fetchall():
            folded = self.line(row["branch"])
            for place, what in folded.faults:
                self.finding("fold", what, **self.place(place))
            owner = self.home.branches[row["branch"]]["session"] if row["branch"] in self.home.branches else None
            if folded.is_whole and (row["uuid"], folded.session, folded.key) != (owner, id_of(owner), row["key"]):
                self.finding("fold", "its row and its entries name different sessions", session=id_of(row["uuid"]))
            self.sessions.append((row, folded))

    def line(self, branch):
        """The fold of a line, up to its first corrupt entry."""
        folded = Session()
        try:
            parts = self.home.line(branch)
        except (Damage, KeyError) as error:
            self.finding("fork", f"its line cannot be followed: {error}")
            parts, folded.is_whole = [], False
        for id_, up_to in parts:
            snapshots = self.usable_snapshots(id_)
            for row in self.home.entries(id_, up_to).fetchall():
                folded = self.entry(folded, row, snapshots.get(row["seq"]))
        return folded

    def entry(self, folded, row, snapshot):
        """Folds one entry. If it cannot be folded, the fold stops until a snapshot provides a state."""
        if row["seq"] in self.bad[row["branch"]]:
            folded.is_whole = False
        if folded.is_whole:
            try:
                folded.apply(row["kind"], json.loads(self.home.payload(row)), row["seq"], row["at"], row)
            except FOREIGN as error:
                folded.is_whole = False
                folded.fault(f"`{row['kind']}` does not match its kind: {error!r}")
        if snapshot is None:
            return folded
        if not folded.is_whole:
            resumed = Session.of_snapshot(snapshot)
            resumed.faults = folded.faults
            return resumed
        if folded.transcript() != snapshot["transcript"]["items"] or folded.messages != snapshot["messages"]:
            self.finding("snapshot", "it does not match the fold of the entries", **self.place(row))
        return folded

    def usable_snapshots(self, branch):
        found = {}
        for (seq,) in self.home.rows("SELECT seq FROM snapshots WHERE branch = ?", branch).fetchall():
            try:
                found[seq] = self.home.snapshot(branch, seq)
            except (Damage, *FOREIGN):
                # `snapshots` has reported it.
                continue
        return found

    def progress(self):
        """Checks that the streamed rows of each effect have no gap."""
        effect, reached = None, 0
        for row in self.home.rows("SELECT * FROM progress ORDER BY branch, effect, offset"):
            self.checked["progress"] += 1
            if effect != (row["branch"], row["effect"]):
                effect, reached = (row["branch"], row["effect"]), 0
            try:
                length = length_of(row)
            except FOREIGN as error:
                self.finding("progress", f"it cannot be read: {error!r}", effect=row["effect"], offset=row["offset"])
                length = 0
            if row["offset"] != reached:
                self.finding("progress", f"{reached} is missing before it", effect=row["effect"], offset=row["offset"])
            reached = row["offset"] + length


def whole(chain):
    """A stored chain, unless it is only the beginning of one."""
    return chain if isinstance(chain, bytes) and len(chain) == max(CHAIN_BYTES) else None


def length_of(row):
    """The length of a row of progress in the output of its effect, in bytes."""
    if row["kind"] == "call_part_added":
        part = json.loads(row["bytes"])
        texts = (part["provider_id"], part["name"], part["arguments"])
        return max(1, sum(len(text.encode()) for text in texts if text))
    if row["kind"] == "block_signed":
        return len(json.loads(row["bytes"])["signature"].encode())
    if row["kind"] not in ("text_added", "reasoning_added", "output_added"):
        raise ValueError(f"`{row['kind']}` is not a kind of progress")
    return len(row["bytes"].decode().encode())
