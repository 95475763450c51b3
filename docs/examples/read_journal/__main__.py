"""Reads and verifies a home of Limulus, written from its documentation only (docs/internals/format.md).

It shares no code and no library with Limulus. It prints the conversation of every session and the place of every
mismatch. Exit codes: 0 everything matches, 1 something does not, 2 there is nothing to read.
"""

import argparse
import json
import sqlite3
import sys

sys.dont_write_bytecode = True
try:
    from home import Home, NothingToRead, id_of
    from verify import Verifier
    from views import run_row
except ModuleNotFoundError as error:
    print(f"read_journal: {error}; run `pip install -r requirements.txt` (beside this program)", file=sys.stderr)
    sys.exit(2)


# The errors of SQLite and Python for a file with corrupt rows or a corrupt schema.
UNREADABLE = (sqlite3.Error, KeyError, TypeError, ValueError, IndexError)


def files_story(attachments):
    """The attachments of an item; empty if it has none."""
    stories = []
    for file in attachments or ():
        body = file["body"]
        stories.append({**{name: file[name] for name in ("name", "media_type")}, "bytes": body["bytes"], "hash": body["hash"]})
    return {"attachments": stories} if stories else {}


def item_story(home, item):
    """An item of a conversation as the report has it, with its texts."""
    role = next(name for name in ("user", "assistant", "result", "note", "summary") if name in item)
    content = item[role]
    story = {"seq": item["seq"], "role": "tool" if role == "result" else role, "calls": []}
    if role == "assistant":
        story["calls"] = [
            {"id": call["id"], "tool": call["tool"], "arguments": home.text(call["arguments"])}
            for call in content["calls"]
        ]
        return {**story, **files_story(content.get("images")), "text": home.text(content["text"]), "request": content["request"]}
    story.update(files_story(content.get("attachments")))
    if role == "result":
        return {**story, "text": home.text(content["output"]), "call": content["call"], "is_error": content["is_error"]}
    return {**story, "text": home.text(content["body"])}


def open_text(home, branch, request):
    sql = "SELECT bytes FROM progress WHERE branch = ? AND effect = ? AND kind = 'text_added' ORDER BY offset"
    return b"".join(row[0] for row in home.rows(sql, branch, request)).decode("utf-8", "replace")


def run_story(home, run, key, branch):
    texts = run.segments + run.kept if run.outcome is None else run.segments
    story = {**run_row(home, run), "key": key, "text": "".join(home.text(body) for body in texts)}
    request = run.open_request
    return {**story, "open_request": request, "open_text": open_text(home, branch, request) if request else ""}


def session_story(home, verifier, row, folded):
    head, chain = verifier.heads.get(row["branch"], (0, None))
    return {
        "session": id_of(row["uuid"]),
        "key": row["key"],
        "branch": id_of(home.branches[row["branch"]]["uuid"]),
        "head": {"seq": head, "chain": chain.hex() if chain else None},
        "lifecycle": folded.lifecycle,
        "whole": folded.is_whole,
        "queue": folded.queued(),
        "transcript": [item_story(home, item) for item in folded.items],
        "runs": [run_story(home, run, row["key"], row["branch"]) for run in folded.runs.values()],
    }


def report(home, verifier):
    sessions = []
    for row, folded in verifier.sessions:
        try:
            sessions.append(session_story(home, verifier, row, folded))
        except UNREADABLE as error:
            verifier.finding("file", f"the session cannot be read: {error}", session=id_of(row["uuid"]))
    mark = {"position": home.mark[0], "chain": home.mark[1].hex()} if home.mark else None
    return {
        "verified": not verifier.findings,
        "findings": verifier.findings,
        "checked": verifier.checked,
        "immutable": home.immutable,
        "mark": mark,
        "sessions": sessions,
    }


def lay_out(result):
    """Prints the report for a person."""
    for session in result["sessions"]:
        print(f"{session['key']}  (branch {session['branch']}, {session['head']['seq']} entries)")
        for item in session["transcript"]:
            seq = "" if item["seq"] is None else item["seq"]
            print(f"  {seq:>5} {item['role']}: {item['text'].strip()}")
            for call in item["calls"]:
                print(f"        → {call['tool']} {call['arguments']}")
        for run in session["runs"]:
            print(f"  run {run['run']}: {run['outcome'] or 'not ended'}, {run['model']}")
            if run["open_request"]:
                print(f"        … {run['open_text']}")
        if not session["whole"]:
            print("  … the rest is corrupt")
        print()
    print("checked " + ", ".join(f"{count} {what}" for what, count in result["checked"].items()))
    if result["immutable"]:
        print("read as an immutable file: the newest commits may be missing")
    for finding in result["findings"]:
        where = ", ".join(f"{name} {value}" for name, value in finding.items() if name not in ("what", "detail"))
        print(f"✗ {finding['what']}: {finding['detail']} ({where})")
    print("everything matches" if result["verified"] else f"{len(result['findings'])} findings")


def main():
    parser = argparse.ArgumentParser(prog="read_journal", description=__doc__.split("\n")[0])
    parser.add_argument("home", help="the folder with journal.db in it (`limulus status` names it)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    try:
        home = Home(arguments.home)
        verifier = Verifier(home)
        verifier.run()
        result = report(home, verifier)
    except NothingToRead as error:
        print(f"read_journal: {error}", file=sys.stderr)
        return 2
    except UNREADABLE as error:
        result = {"verified": False, "findings": [{"what": "file", "detail": str(error)}], "checked": {}}
        result.update(immutable=False, mark=None, sessions=[])
    if arguments.json:
        json.dump(result, sys.stdout, ensure_ascii=False, indent=2)
        print()
    else:
        lay_out(result)
    return 0 if result["verified"] else 1


if __name__ == "__main__":
    sys.exit(main())
