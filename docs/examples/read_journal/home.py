"""Reads the files and the rows of a home, the hashes and the chain. It judges nothing and knows no conversation."""

import json
import os
import re
import sqlite3
import struct
import urllib.parse
import uuid

from blake3 import blake3
from zstandard import ZstdCompressionDict, ZstdDecompressor, ZstdError, get_frame_parameters

APPLICATION_ID, FORMATS, EVENT_VERSION, SNAPSHOT_VERSIONS = 0x4C494D55, (1, 2), 1, (12, 13)
# The lengths of a stored chain: its beginning, or the whole.
CHAIN_BYTES = (4, 32)
MAGIC, DICTIONARY = b"\x28\xb5\x2f\xfd", b"\x37\xa4\x30\xec"
KINDS = set("""
    created forked opened closed message_accepted message_settled gathered run_started request_sent message_sealed
    call_asked ask_answered ask_expired answer_refused call_started call_ending call_settled compacted results_cut uncompacted compaction_asked noted budget_set
    wait_began wait_ended retry_scheduled candidate_cooled candidate_cleared profile_cooled profile_preferred profile_cleared allowance_set ending_set
    run_ended breakpoint_set reset paused resumed lifecycle_changed override_set session_labelled delivery_wanted delivery_started delivery_failed delivery_ended process_adopted
    process_ending process_ended process_forgotten files_changed undo_started undo_ended erasure_ended title_asked title_ended plan_set step_begun request_opened budget_asked
    stream_cut text_struck call_checked call_lost call_found image_made compaction_begun compaction_failed failed reported
    ledger_begun profile_answered thinking_lowered grant_given grant_revoked
""".split())
BODY_KINDS = ("message", "reasoning", "arguments", "output", "prompt", "settings", "blocks", "file")
TOKENS = ("input", "cached", "cache_written", "output", "reasoning")

# The errors of Python for values of the wrong shape.
FOREIGN = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)


class NothingToRead(Exception):
    """There is no journal, or not one of this format."""


class Damage(Exception):
    """A part of the file is corrupt; the message says which."""


def digest(data):
    return blake3(data).digest()


def chain_after(before, branch, seq, epoch, at, kind, version, payload_hash):
    numbers = struct.pack("<qqq", seq, epoch, at)
    return digest(before + branch + numbers + kind.encode() + b"\0" + struct.pack("<H", version) + payload_hash)


def bodies_in(value):
    """Every object `body` in a payload or a snapshot, at any depth."""
    if isinstance(value, dict):
        if value.keys() == {"hash", "bytes", "tokens", "kind"}:
            yield value
        for inner in value.values():
            yield from bodies_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from bodies_in(inner)


class Values:
    """The values of a template, one after the other."""

    def __init__(self, data):
        self.data, self.at, self.id = data, 0, None

    def left(self):
        return len(self.data) - self.at

    def take(self, length):
        if length > self.left():
            raise IndexError
        self.at += length
        return self.data[self.at - length : self.at]

    def number(self):
        number, shift = 0, 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def next(self, kind):
        if kind == 4:
            self.id = str(uuid.UUID(bytes=self.take(16))).encode()
        if kind in (4, 7):
            if self.id is None:
                raise IndexError
            return self.id
        if kind == 5:
            return self.take(32).hex().encode()
        number = self.number()
        return str(number).encode() if kind == 6 else self.take(number)


class Home:
    """The open journal, as rows."""

    def __init__(self, path):
        file = os.path.join(path, "journal.db")
        if not os.path.isfile(file):
            raise NothingToRead(f"{file} does not exist")
        # The mark is read first, then the rest in one transaction, so the position of the mark exists in it.
        self.mark = self.read_mark(os.path.join(path, "journal.mark"))
        self.immutable = False
        try:
            self.connect(file, "mode=ro")
        except sqlite3.OperationalError:
            if os.access(path, os.W_OK):
                raise
            self.immutable = True
            self.connect(file, "mode=ro&immutable=1")
        numbers = [self.one(f"PRAGMA {name}") for name in ("application_id", "user_version")]
        if numbers[0] != APPLICATION_ID:
            raise NothingToRead(f"{file} is not a journal of Limulus")
        if numbers[1] not in FORMATS:
            raise NothingToRead(f"{file} has format {numbers[1]}; this reads the formats {FORMATS}")
        self.format = numbers[1]
        # Dictionaries by id, and what decompresses with each; 0 is none. Lists of templates by id.
        self.dictionaries, self.templates = {0: None}, {}
        for row in self.rows("SELECT id, bytes FROM dictionaries") if self.format > 1 else ():
            if row["bytes"].startswith(DICTIONARY):
                self.dictionaries[row["id"]] = ZstdCompressionDict(row["bytes"])
            else:
                self.templates[row["id"]] = row["bytes"].split(b"\n")[:-1]
        self.unpackers = {}
        self.branches = {row["id"]: row for row in self.rows("SELECT * FROM branches")}
        self.ids = {row["uuid"]: row["id"] for row in self.branches.values()}

    def connect(self, file, how):
        self.db = sqlite3.connect(f"file:{urllib.parse.quote(os.path.abspath(file))}?{how}", uri=True)
        self.db.isolation_level = None
        self.db.row_factory = sqlite3.Row
        self.db.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        self.db.execute("BEGIN")
        self.db.execute("SELECT count(*) FROM sqlite_schema").fetchone()

    @staticmethod
    def read_mark(file):
        try:
            with open(file, "rb") as mark:
                data = mark.read(40)
        except OSError:
            return None
        if len(data) < 40:
            return None
        position = struct.unpack("<Q", data[:8])[0]
        return (position, data[8:]) if position else None

    def rows(self, sql, *values):
        return self.db.execute(sql, values)

    def one(self, sql, *values):
        row = self.db.execute(sql, values).fetchone()
        return row[0] if row else None

    def unpack(self, frame):
        """The content of a Zstandard frame, with the dictionary that it names."""
        try:
            id_ = get_frame_parameters(frame).dict_id
            if id_ not in self.dictionaries:
                raise Damage(f"it needs dictionary {id_}, which is missing")
            if id_ not in self.unpackers:
                self.unpackers[id_] = ZstdDecompressor(dict_data=self.dictionaries[id_])
            return self.unpackers[id_].decompressobj().decompress(frame)
        except ZstdError as error:
            raise Damage(f"not a Zstandard frame: {error}") from error

    def json(self, row, column):
        """The text of JSON in this column or in `packed`; None if it was removed."""
        packed = row["packed"] if self.format > 1 else None
        if packed is None:
            return row[column]
        if row[column]:
            raise Damage("it is there twice")
        is_values = packed[:1] and packed[0] & 0xF8 == 8
        text = self.filled(packed[0] & 7, Values(packed[1:])) if is_values else self.unpack(MAGIC + packed)
        return text.decode("utf-8", "surrogateescape")

    def filled(self, id_, values):
        """The text of a template with these values."""
        if id_ not in self.templates:
            raise Damage(f"it needs the templates {id_}, which are missing")
        try:
            template = self.templates[id_][values.number()]
            text = re.sub(rb"[\x04-\x08]", lambda found: values.next(found[0][0]), template)
        except IndexError as error:
            raise Damage("no values of a template") from error
        if values.left():
            raise Damage("more values than its template has")
        return text

    def payload(self, row):
        """The text of a payload; None if it was removed."""
        return self.json(row, "payload")

    def payload_hash(self, row):
        """The hash of a payload: the stored one, or else that of the payload; empty if there is neither."""
        if row["payload_hash"]:
            return row["payload_hash"]
        payload = self.payload(row)
        return b"" if payload is None else digest(payload.encode("utf-8", "surrogateescape"))

    def is_removed(self, row):
        """Whether the payload of an entry was removed."""
        return row["payload"] is None and (self.format == 1 or row["packed"] is None)

    def view_row(self, row, *columns):
        """The text of the row of a view: in a packed one a byte stands for each text of these columns."""
        text = self.json(row, "row")
        for byte, column in enumerate(columns, 1) if text != row["row"] else ():
            text = text.replace(chr(byte), column) if column else text
        return text

    def entries(self, branch, up_to=None):
        limit = (1 << 62) if up_to is None else up_to
        return self.rows("SELECT * FROM entries WHERE branch = ? AND seq <= ? ORDER BY seq", branch, limit)

    def line(self, branch):
        """The parts of a line, oldest first: (branch, its last seq or None)."""
        parts, up_to = [], None
        while branch is not None:
            parts.insert(0, (branch, up_to))
            row = self.branches[branch]
            branch, up_to = row["parent"], row["parent_seq"]
            if len(parts) > len(self.branches):
                raise Damage("a branch is its own ancestor")
        return parts

    def snapshot(self, branch, seq):
        """The session of a snapshot; None if the snapshot is missing or has another version."""
        row = self.db.execute("SELECT * FROM snapshots WHERE branch = ? AND seq = ?", (branch, seq)).fetchone()
        if row is None:
            return None
        data = self.unpack(row["content"])
        if digest(data) != row["state_hash"]:
            raise Damage("it does not match its state_hash")
        state = json.loads(data)
        if state.get("version") not in SNAPSHOT_VERSIONS:
            return None
        session = state["session"]
        # In version 12 the fields of both halves stand side by side.
        return session if state["version"] == 12 else {**session["account"], **session["conversation"]}

    def body(self, hash_):
        """The bytes of a body; None if its content was erased."""
        row = self.db.execute("SELECT * FROM bodies WHERE hash = ?", (hash_,)).fetchone()
        if row is None:
            raise Damage("it is missing")
        if row["kind"] not in BODY_KINDS or row["encoding"] not in ("raw", "zstd"):
            raise Damage(f"the kind `{row['kind']}` or the encoding `{row['encoding']}` is unknown")
        if row["content"] is None:
            return None
        data = row["content"] if row["encoding"] == "raw" else self.unpack(row["content"])
        if len(data) != row["size"]:
            raise Damage(f"it has {len(data)} bytes instead of {row['size']}")
        if digest(data) != hash_:
            raise Damage("it does not match its hash")
        return data

    def text(self, body):
        """The text of an object `body`; an error or an erased text in brackets."""
        if body is None:
            return ""
        try:
            data = self.body(bytes.fromhex(body["hash"]))
        except Damage as damage:
            return f"[{damage}]"
        return "[erased]" if data is None else data.decode("utf-8", "replace")


def id_of(blob):
    return str(uuid.UUID(bytes=blob)) if blob is not None and len(blob) == 16 else None
