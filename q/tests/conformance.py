#!/usr/bin/env python3
"""Writes q/CONFORMANCE.md: how far elastick's answers agree with published q transcripts, and why each other one differs.

    q/tests/conformance.py [--engine PATH] [--check]

Replays the corpus beside the checkout (../shared/kdb) with the release binary. Every answer that differs has its reason in
conformance.jsonl, one JSON object a line: `page`, `input` (its beginning is enough), `kind` (of KINDS) and `why`. The exit
status is 1 where an answer that differs has no reason, and, when the page is written, where a reason stands for an answer that agrees.

--check replays what the page gives reasons for, as the corpus's own tool does; what is only counted (pages that lean on unseen data, and
pages run whole) is counted when the page is written.
"""
import argparse, collections, json, os, sys

import replay

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CORPUS = os.path.join(os.path.dirname(ROOT), "shared", "kdb")
PAGE = os.path.join(ROOT, "q", "CONFORMANCE.md")
REASONS = os.path.join(HERE, "conformance.jsonl")
TRUSTED = ("high", "medium")
# Prefixes of the page's lines that --check ignores, because it does not count them.
COUNTED = ("Run whole", "Low trust")

# Inputs that never end or exceed the memory of a small machine: skipped, so that the result does not depend on the machine's speed.
NOT_SENT = {
    "basics/funsql.md": ["ereptest:{ //"],
    "basics/handles.md": ["s:{1 x;read0 0}"],
    "basics/peach.md": ["s:100000000?", "\\t {group s}"],
    "basics/syscmds.md": [".Q.fmt[8;6]a"],
    "kb/mt-primitives.md": ["v:100000000?", "a:100 1000000#0", "system\"s 2\";system each", "system\"s 0\";system each"],
    "learn/reading/boggle.md": ["PATHS:", "count PATHS:"],
    "ref/accumulators.md": ["(not/) 42", "(not/)42"],
    "ref/dotq.md": ["v:{(10#\"a\";10000#\"b\")}each"],
}

# In the order of the page. Only the first kind is a defect of elastick.
KINDS = {
    "gap": ("elastick differs", "Not built, or built otherwise than kdb+ has it."),
    "k": ("kdb+'s own k source is shown", "Keywords that kdb+ writes in k show that text there; elastick has no k."),
    "unrun": ("A step before it is not run", "The page makes the value with a step that the replay leaves out: files, other processes, "
              "the clock, random numbers, a line shown for context."),
    "script": ("Its script is cut short", "The page defines it in a script; the replay joins the lines, and a comment then hides the rest."),
    "random": ("Random numbers", "The sequence of random numbers need not be kdb+'s."),
    "machine": ("The session", "What the author's machine, command line, console or earlier work in the session shows, or the replay's own."),
    "older": ("Another release", "The page shows an older release's answer, or one that another page contradicts."),
    "edited": ("Edited on the page", "Blanks, columns, digits or the form of the value were changed for reading."),
    "slip": ("Slip of the page", "The page shows what q cannot have answered to that line."),
}


def reason_for(record, reasons):
    """The reason whose input is the longest beginning of the record's."""
    fit = [r for r in reasons if r["page"] == record["page"] and replay.flat(record["input"]).startswith(replay.flat(r["input"]))]
    return max(fit, key=lambda r: len(r["input"]), default=None)


def share(good, count):
    return f"{good} of {count} | {100 * good / count:.1f} %"


def cell(text, most=90):
    text = replay.flat(text).replace("|", "\\|")
    return text if len(text) <= most else text[: most - 2] + ".."


def areas(records):
    counts = collections.OrderedDict()
    for record in records:
        area = record["page"].split("/")[0]
        good, count = counts.get(area, (0, 0))
        counts[area] = (good + record["good"], count + 1)
    return sorted(counts.items(), key=lambda item: -item[1][1])


def turned(explained, whole):
    """How many of the answers that differ agree where their page is run whole, by kind."""
    good = collections.Counter((r["page"], r["block"], r["input"]) for r in whole if r["good"])
    return collections.Counter(reason["kind"] for r, reason in explained if good[(r["page"], r["block"], r["input"])])


def counted(records, low, whole, explained):
    """What is known only after everything has been replayed: two lines of the page."""
    def good(some):
        return sum(r["good"] for r in some)

    kinds = turned(explained, whole)
    of_kinds = ", ".join(f"{count} of \"{KINDS[kind][0]}\"" for kind, count in kinds.most_common())
    return [
        f"Run whole: with their scripts loaded as files, and with the steps whose own answers nobody can compare (random numbers, the clock,"
        f" files, lines shown for context) run for what they leave behind, {good(whole)} of the same {len(records)} answers agree"
        f" ({100 * good(whole) / len(records):.1f} %); of the answers below {sum(kinds.values())} do then: {of_kinds}.",
        "",
        f"Low trust: pages that lean on data, scripts or processes that are not shown (white papers, release notes) are replayed too, without"
        f" reasons: {good(low)} of {len(low)} answers agree.",
    ]


def page(records, counts, explained):
    good, count = sum(r["good"] for r in records), len(records)
    by_kind = collections.OrderedDict((kind, []) for kind in KINDS)
    for record, reason in explained:
        by_kind[reason["kind"]].append((record, reason))
    own = len(by_kind["gap"])
    out = [
        "# Conformance of q", "",
        "Written by `q/tests/conformance.py` from a replay of transcripts that KX publishes with the documentation of q; compared again by",
        "`tests/run conformance`. The reasons stand in `q/tests/conformance.jsonl`.", "",
        f"**{good} of {count} answers agree to the character ({100 * good / count:.1f} %)** on the pages of high and medium trust.",
        f"Of the {count - good} others, {own} are elastick's; no engine could give the remaining {count - good - own} in this replay,",
        f"so that {100 * (good) / (good + own):.1f} % of those that can be given are. The aim of 95 % lies above the "
        f"{100 * (good + own) / count:.1f} % that can be reached.", "",
        "| area | agree | share |", "|---|---|---|",
    ]
    out += [f"| {area} | {share(*counts)} |" for area, counts in areas(records)]
    out.append(f"| all | {share(good, count)} |")
    out += ["", *counts, "",
            "## What matches", "",
            "Expressions, types and their arithmetic, casts, strings, iterators, dictionaries and tables, qSQL and joins, errors by name and place,",
            "and the console's form of all of them, apart from the answers below.", "", "## What differs, and why", "",
            "| reason | answers |", "|---|---|"]
    out += [f"| {KINDS[kind][0]} | {len(found)} |" for kind, found in by_kind.items() if found]
    for kind, found in by_kind.items():
        if not found:
            continue
        title, meaning = KINDS[kind]
        out += ["", f"### {title}", "", meaning, "", "| page | expression | why |", "|---|---|---|"]
        out += [f"| {record['page']} | `{cell(record['input'])}` | {cell(reason['why'], 300)} |" for record, reason in found]
    return "\n".join(out) + "\n"


def without_counts(text):
    return [line for line in text.split("\n") if line and not line.startswith(COUNTED)]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--engine", default=os.environ.get("ELASTICK_BIN", os.path.join(ROOT, "target", "release", "elastick")))
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--seconds", type=float, default=120, help="seconds after which an input counts as endless")
    options = arguments.parse_args()
    if not os.path.exists(os.path.join(CORPUS, "corpus.py")):
        print("skipped: no corpus beside the checkout")
        return 0
    old = open(PAGE, encoding="utf-8").read() if os.path.exists(PAGE) else ""
    player = replay.Replay(CORPUS, [os.path.abspath(options.engine), "q"], options.seconds, NOT_SENT)
    records = player.run(TRUSTED, "strict")
    with open(REASONS, encoding="utf-8") as lines:
        reasons = [json.loads(line) for line in lines if line.strip()]
    faults, explained, used = [], [], []
    for record in records:
        if record["good"]:
            continue
        reason = reason_for(record, reasons)
        if reason is None:
            faults.append(f"no reason: {record['page']}: {cell(record['input'])}")
        else:
            explained.append((record, reason))
            used.append(id(reason))
    better = [f"agrees now: {r['page']}: {cell(r['input'])}" for r in reasons if id(r) not in used]
    faults += [f"unknown kind: {r['kind']}" for r in reasons if r["kind"] not in KINDS]
    for line in faults + better:
        print(line)
    if faults:
        return 1
    if options.check:
        if better or without_counts(page(records, [], explained)) != without_counts(old):
            print("q/CONFORMANCE.md says less than the replay gives: run q/tests/conformance.py")
        return 0
    if better:
        return 1
    low, whole = player.run(("low",), "strict"), player.run(TRUSTED, "whole")
    text = page(records, counted(records, low, whole, explained), explained)
    with open(PAGE, "w", encoding="utf-8") as out:
        out.write(text)
    good = sum(r["good"] for r in records)
    print(f"agree: {good} of {len(records)} = {100 * good / len(records):.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
