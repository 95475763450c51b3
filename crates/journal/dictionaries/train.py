"""Trains the dictionaries of a new id: `python train.py HOMES.. --out FOLDER` (needs `pip install zstandard`).

The first is trained on payloads of entries and rows of views, in which every id, hash and time is replaced by a random
one: they never repeat between homes, so a dictionary must not hold any. The second is trained on the paragraphs of this
project's pages.
"""

import argparse
import pathlib
import random
import re
import sqlite3
import uuid

import zstandard

ID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
HASH = re.compile(rb"\b[0-9a-f]{64}\b")
TIME = re.compile(rb"\b17\d{11}\b")
FOLDER = re.compile(rb'"workspace":"[^"]*"')
BYTES, LEVEL, TRIES = 4096, 3, 16
ROOT = pathlib.Path(__file__).resolve().parents[3]
draw = random.Random(1)


def new_time():
    return 1_767_225_600_000 + draw.randrange(60 * 10**9)


def new_id():
    digits = f"{new_time():012x}7{draw.getrandbits(12):03x}{draw.getrandbits(62) | 1 << 63:016x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])).encode()


def anonymous(text):
    """The text with other ids, hashes, times and folders; the same id stays the same within it."""
    new = {}
    text = ID.sub(lambda found: new.setdefault(found[0], new_id()), text)
    text = HASH.sub(lambda found: new.setdefault(found[0], b"%064x" % draw.getrandbits(256)), text)
    text = FOLDER.sub(b'"workspace":"/home/you/work"', text)
    return TIME.sub(lambda _: b"%d" % new_time(), text)


def short(row, *columns):
    """The row of a view as it is packed: a byte stands for each text that a column says too."""
    for byte, column in enumerate(columns, 1):
        row = row.replace(column, chr(byte)) if column else row
    return row


def hyphenated(blob):
    return str(uuid.UUID(bytes=blob))


def payloads(home):
    """The JSON in a home of format 1."""
    database = sqlite3.connect(f"file:{home}/journal.db?mode=ro&immutable=1", uri=True)
    yield from (text for (text,) in database.execute("SELECT payload FROM entries WHERE payload IS NOT NULL"))
    for row, *ids in database.execute("SELECT row, run, session FROM view_runs"):
        yield short(row, *map(hyphenated, ids))
    for row, message, session, key in database.execute("SELECT row, message, session, key FROM view_receipts"):
        yield short(row, hyphenated(message), hyphenated(session), key)


def paragraphs():
    for page in sorted(ROOT.glob("**/*.md")):
        yield from (text for text in page.read_bytes().split(b"\n\n") if 40 < len(text) < 1500)


def best(id_, samples):
    """The dictionary that packs every fifth sample best, of several that differ in the order of the samples."""

    def packed(dictionary):
        packer = zstandard.ZstdCompressor(level=LEVEL, dict_data=dictionary)
        return sum(len(packer.compress(sample)) for sample in measured)

    measured, found = samples[::5], []
    for _ in range(TRIES):
        draw.shuffle(samples)
        found.append(zstandard.train_dictionary(BYTES, samples, dict_id=id_, level=LEVEL))
    return min(found, key=packed).as_bytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("homes", nargs="*", help="folders with a journal.db of format 1")
    parser.add_argument("--samples", help="a file with more payloads, one a line")
    parser.add_argument("--out", default=".")
    arguments = parser.parse_args()
    json = [anonymous(text.encode()) for home in arguments.homes for text in payloads(home)]
    if arguments.samples:
        lines = pathlib.Path(arguments.samples).read_bytes().splitlines()
        json += [anonymous(line) for line in lines for _ in range(4)]
    for id_, name, samples in ((1, "json", json), (2, "text", list(paragraphs()))):
        dictionary = best(id_, samples)
        pathlib.Path(arguments.out, f"{id_}-{name}.zdict").write_bytes(dictionary)
        print(name, len(samples), "samples,", len(dictionary), "bytes")


if __name__ == "__main__":
    main()
