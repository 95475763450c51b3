"""Lists the shapes of JSON that homes have most of: `python templates.py HOMES.. > FILE`.

A shape is the text with a byte for each value, as `templates.rs` finds them. `--least` says in how many homes a shape must be.
The homes are of format 1, or were stored uncompressed.
"""

import argparse
import collections
import re
import sys

from train import payloads

NAMES = rb"model|tool|provider_id|workspace|key"
BOUND = rb"(?<![0-9A-Za-z_])"
VALUE = re.compile(
    BOUND + rb"(?P<id>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})|" + BOUND + rb"(?P<hash>[0-9a-f]{64})|"
    rb'(?P<before>"(?:' + NAMES + rb')":")(?P<text>(?![0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")[^"\\]*)(?=")|'
    + BOUND + rb"(?P<number>0|[1-9][0-9]{0,17})(?![0-9A-Za-z_])"
)
# What a value takes without a template, bytes: enough to order the shapes by what they save.
SAVED_A_BYTE = 0.25


def shape(text):
    last = None

    def value(found):
        nonlocal last
        if found["id"]:
            same, last = found["id"] == last, found["id"]
            return b"\x07" if same else b"\x04"
        if found["hash"]:
            return b"\x05"
        return b"\x06" if found["number"] else found["before"] + b"\x08"

    return VALUE.sub(value, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("homes", nargs="+")
    parser.add_argument("--least", type=int, default=4)
    parser.add_argument("--most", type=int, default=64, help="the number of shapes that are printed")
    arguments = parser.parse_args()
    found, homes = collections.Counter(), collections.defaultdict(set)
    for home in arguments.homes:
        for text in payloads(home):
            of = shape(text.encode())
            found[of] += SAVED_A_BYTE * len(of)
            homes[of].add(home)
    usual = [of for of, _ in found.most_common() if len(homes[of]) >= arguments.least]
    sys.stdout.buffer.write(b"".join(of + b"\n" for of in usual[: arguments.most]))


if __name__ == "__main__":
    main()
