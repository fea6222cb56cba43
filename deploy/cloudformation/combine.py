#!/usr/bin/env python3
"""Makes elastick.yaml, which launches everything with one command, from tickerplant.yaml and rdb-cluster.yaml.

    deploy/cloudformation/combine.py            writes elastick.yaml
    deploy/cloudformation/combine.py --check    fails if elastick.yaml is out of date

What rdb-cluster.yaml imports from the tickerplant's stack becomes what that stack would have exported. Parameters, rules
and conditions that both have must be the same in both. Comments, blank lines, the blanks of the dashboard's JSON
and most of the indentation are left out, since a template in a request may have 51200 bytes.
"""

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE / "elastick.yaml"
SECTIONS = ["Parameters", "Rules", "Conditions", "Resources", "Outputs"]
DROPPED = {"TICKSTACK"}
IMPORT = re.compile(r"Fn::ImportValue: !Sub '\$\{TICKSTACK\}-(\w+)'")
# Indentation of the dashboard's JSON.
JSON_INDENT = re.compile(r'^ {10,}(?=[\["{}\]])')
# A string of the dashboard's JSON, or a blank between its tokens.
JSON_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")|(?<=[:,]) ')
# A line break between tokens of the dashboard's JSON, on lines that `compact` has indented.
JSON_BREAK = re.compile(r'(?<=[,\[])\n {10}(?=[\["{])')
# A sequence of plain values below its key.
PLAIN_SEQUENCE = re.compile(r"^( *)(\S[^\n]*:)\n((?:\1  - (?:!Ref )?[\w:.]+\n)+)(?!\1  )", re.M)
# A mapping of values on one line each below its key. Plain text has no character with a meaning in YAML.
VALUE = r"(?:!\w+ )?(?:'[^'\n]*'|\[[^\n]*\]|\{[^\n]*\}|[\w.:/-]*[\w./-]|\w[\w ./;'-]*)"
PLAIN_MAPPING = re.compile(rf"^( *)([\w:]+):\n((?:\1  [\w:]+: (?:{VALUE})\n)+)(?!\1  )", re.M)
# The same as an entry of a sequence.
PLAIN_ENTRY = re.compile(rf"^( *)- ([\w:]+: (?:{VALUE})\n(?:\1  [\w:]+: (?:{VALUE})\n)+)(?!\1  )", re.M)
# Longest line that such a mapping is put on.
MAX_LINE = 400
# A line whose value is in brackets or braces; there a string, or a blank between two entries.
IN_BRACKETS = re.compile(r"^ *(?:- )?(?:[\w:]+: )?(?:!\w+ )?[\[{].*[\]}]$")
ENTRY_BREAK = re.compile(r"('[^']*')|(?<=,) ")
# A tag in several lines, because its value was imported.
TAG = re.compile(r"- Key: (\w+)\n +Value: (![^\n]+)\n +PropagateAtLaunch: true")

HEAD = """\
# Made by combine.py from tickerplant.yaml and rdb-cluster.yaml: change those.
AWSTemplateFormatVersion: '2010-09-09'
Description: 'elastick: file system, one or two tickerplants and one RDB cluster.'

Metadata:
  AWS::CloudFormation::Interface:
    ParameterGroups:
      - Label: {default: Amazon EC2}
        Parameters: [AMI, SSHKEY, TICKINSTANCETYPE, ROOTDEVICE, ROOTVOLUME]
      - Label: {default: Real-time database cluster}
        Parameters: [RDBINSTANCETYPE, SCALETHRESHOLD, ROLLTHRESHOLD, MINNODES, MAXNODES, RDBOPTIONS, RDBPORT]
      - Label: {default: Network}
        Parameters: [VPCID, SUBNETID, SUBNETID2, SUBNETID3, CLIENTCIDR, SSHCIDR]
      - Label: {default: Tickerplant}
        Parameters: [TICKERPLANTS, SCHEMA, ROLLTIME, CALENDAR, WAKE, IDLEOFF, TICKOPTIONS, TICKPORT, ZONENAME]
      - Label: {default: Launching and ending}
        Parameters: [PURCHASE, WARMPOOL, LAUNCHTIMEOUT, LEAVETIMEOUT, TURNOFF, TURNON, TIMEZONE]
      - Label: {default: Keeping and watching}
        Parameters: [BACKUP, KMSKEY, LOGRETENTION, LOGALARM, LAGALARM, ALARMTOPIC]
      - Label: {default: Access}
        Parameters: [USERSSECRET]
"""


def parse(text):
    """{section: {name: its lines}} without comments."""
    sections, section, name = {}, None, None
    for line in text.splitlines():
        if top := re.match(r"(\w+):$", line):
            section, name = sections.setdefault(top[1], {}), None
        elif entry := re.match(r"  ([\w:]+):", line):
            name = entry[1]
            section[name] = [line]
        elif line.lstrip().startswith("# "):
            name = None if line.startswith("  #") else name
        elif line.strip() and name is not None:
            section[name].append(line)
    return sections


def exports(outputs):
    """{name of the export: expression of its value}."""
    found = {}
    for lines in outputs.values():
        text = "\n".join(lines)
        export = re.search(r"Export: \{Name: !Sub '\$\{AWS::StackName\}-(\w+)'\}", text)
        if export:
            found[export[1]] = re.search(r"^    Value: (.+)$", text, re.M)[1]
    return found


def compact(line):
    """A line of the dashboard's JSON without the blanks before and between its tokens; any other line as it is."""
    if not JSON_INDENT.match(line):
        return line
    return JSON_TOKEN.sub(lambda found: found[1] or "", JSON_INDENT.sub(" " * 10, line))


def on_one_line(found):
    """A sequence of plain values in brackets behind its key."""
    return f"{found[1]}{found[2]} [{', '.join(re.findall(r'- (.+)', found[3]))}]\n"


def in_braces(head, lines, otherwise):
    """A mapping in braces behind what comes before it, if that is no long line."""
    line = f"{head} {{{', '.join(line.strip() for line in lines.splitlines())}}}\n"
    return line if len(line) <= MAX_LINE else otherwise


def denser(text):
    """YAML with one blank for each level of mappings, and sequences at the column of their key. What is plain is on the line of its key, in
    brackets or braces without blanks between entries."""
    text = PLAIN_SEQUENCE.sub(on_one_line, text)
    before = None
    while text != before:
        before = text
        text = PLAIN_MAPPING.sub(lambda found: in_braces(f"{found[1]}{found[2]}:", found[3], found[0]), text)
        text = PLAIN_ENTRY.sub(lambda found: in_braces(f"{found[1]}-", found[2], found[0]), text)
    out, columns = [], [(0, 0)]
    for line in text.splitlines():
        column = len(line) - len(line.lstrip())
        while columns[-1][0] > column:
            columns.pop()
        if columns[-1][0] < column:
            columns.append((column, columns[-1][1] + (not line.lstrip().startswith("- "))))
        new, rest = columns[-1][1], line.lstrip()
        if IN_BRACKETS.match(rest):
            rest = ENTRY_BREAK.sub(lambda found: found[1] or "", rest)
        out.append(" " * new + rest)
        while rest.startswith("- "):
            # What follows a dash is a level of its own.
            column, new, rest = column + 2, new + 2, rest[2:]
            columns.append((column, new))
    return "\n".join(out) + "\n"


def combine(tick_text, rdb_text):
    tick, rdb = parse(tick_text), parse(rdb_text)
    values = exports(tick["Outputs"])

    def resolved(line):
        if "Fn::ImportValue" not in line:
            return line
        return IMPORT.sub(lambda found: values[found[1]], line)

    out = [HEAD]
    for section in SECTIONS:
        merged = dict(tick[section])
        for name, lines in rdb[section].items():
            if name in DROPPED:
                continue
            lines = [compact(resolved(line)) for line in lines]
            if merged.setdefault(name, lines) != lines:
                raise SystemExit(f"combine.py: {section} {name} differs between the two templates")
            if name == "RdbGroup" and section == "Resources":
                lines.insert(2, "    DependsOn: TickGroup")
        out.append(f"{section}:\n" + "\n".join("\n".join(lines) for lines in merged.values()) + "\n")
    text = re.sub(r":\n +(?=!(Ref|Sub) )", ": ", "\n".join(out))
    text = TAG.sub(r"- {Key: \1, Value: \2, PropagateAtLaunch: true}", text)
    text = JSON_BREAK.sub("", text)
    if "TICKSTACK" in text:
        raise SystemExit("combine.py: something of the other stack is left")
    return denser(text)


def current():
    """elastick.yaml as it should be."""
    return combine((HERE / "tickerplant.yaml").read_text(), (HERE / "rdb-cluster.yaml").read_text())


def main():
    if sys.argv[1:] == ["--check"]:
        if OUT.read_text() != current():
            sys.exit("combine.py: elastick.yaml is out of date; run deploy/cloudformation/combine.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        OUT.write_text(current())


if __name__ == "__main__":
    main()
