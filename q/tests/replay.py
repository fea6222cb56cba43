"""Replays published q transcripts (../shared/kdb/corpus.jsonl) on `elastick q`: pages side by side, one session a page.

Two ways. `strict` runs what the corpus's own tool runs, and nothing else. `whole` runs the page as a reader would: its scripts are loaded
as files, and the steps whose answers cannot be compared (data made of random numbers or the clock, files, lines shown for context) are
run too, so that what follows has the values that it speaks of; an input that never ends is interrupted, not the session.
"""
import collections, concurrent.futures, importlib.util, json, os, re

# Steps run only by `whole`.
FOR_THE_STATE = ("context", "nondet", "fs", "annotated", "debug")
# Inputs that leave the session's folder or end the session: never run.
OUTWARD = re.compile(r"`:/|`:\.\.|`:~|/tmp|/home|hopen|^\s*\\\\|^exit|\bexit ?\[|\bexit\b \d|^\\(cd|x|r|p|1|2|ls|rm|mkdir|cat|wget|curl)\b|"
                     r"^\\[a-z]{3,}|^!|system ?\"(?![a-zA-Z_0-9]( |\"))|\\p |\"p |setenv|\.z\.p[gsioch]|\.z\.ts|\\t \d|0x\d+ set|[Hh]ttp")


def load_tool(folder):
    spec = importlib.util.spec_from_file_location("corpus", os.path.join(folder, "corpus.py"))
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def pages(folder, trust):
    """The blocks of each page that has something of this trust to check, in the corpus's order."""
    found = collections.OrderedDict()
    with open(os.path.join(folder, "corpus.jsonl"), encoding="utf-8") as lines:
        for line in lines:
            block = json.loads(line)
            found.setdefault(block["page"], []).append(block)
    return {page: blocks for page, blocks in found.items() if any(block["trust"] in trust for block in blocks)}


class Replay:
    """`endless`: beginnings of inputs that are not sent, by page. `seconds`: how long any other may take."""

    def __init__(self, folder, command, seconds, endless):
        self.tool, self.folder, self.command = load_tool(folder), folder, command
        self.seconds, self.endless = seconds, endless

    def run(self, trust, way, workers=2):
        walk = self.strict if way == "strict" else self.whole
        found = pages(self.folder, trust)
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            done = list(pool.map(lambda page: walk(page, found[page], trust), found))
        return [record for records in done for record in records]

    def engine(self, page, interrupts):
        beginnings = [flat(text) for text in self.endless.get(page, [])]

        class Patient(self.tool.Engine):
            """An engine that is spared the inputs that never end."""

            def ask(self, text):
                if any(flat(text).startswith(beginning) for beginning in beginnings):
                    return "'stop" if interrupts else None
                return super().ask(text)

        return Patient(self.command, self.seconds)

    def strict(self, page, blocks, trust):
        engine = self.engine(page, False)
        checked = lambda block, step: block["trust"] in trust
        try:
            return [self.record(page, block, step, got) for block, step, got in self.tool.run_page(engine, blocks, checked)]
        finally:
            engine.close()

    def record(self, page, block, step, got):
        return {"page": page, "block": block["block_index"], "input": step["input"], "want": step["output"], "got": got,
                "good": self.tool.agrees(step, got)}

    def whole(self, page, blocks, trust):
        engine, records = self.engine(page, True), []
        try:
            engine.start()
            for block in blocks:
                if block["kind"] == "script":
                    self.script(engine, block)
                for step in block["steps"] if block["kind"] != "script" else []:
                    records += self.step(engine, page, block, step, trust)
        finally:
            engine.close()
        return records

    def script(self, engine, block):
        """As `\\l` takes it from a file, where it defines something and does not reach out."""
        if block["lang"] != "q" or any(OUTWARD.search(line) for line in block["text"].split("\n")):
            return
        with open(os.path.join(engine.directory.name, "page_script.q"), "w", encoding="utf-8") as out:
            out.write(block["text"].replace("\u00a0", " ") + "\n")
        self.alive(engine, "\\l page_script.q")
        if os.path.exists(os.path.join(engine.directory.name, "page_script.q")):
            os.remove(os.path.join(engine.directory.name, "page_script.q"))

    def step(self, engine, page, block, step, trust):
        given = step["input"].replace("\u00a0", " ")
        if given.strip() in ("\\l sp.q", "\\l trade.q") or "loads_sp" in step.get("flags", []):
            for line in self.tool.SUPPLIERS:
                engine.ask(line)
            if given.strip().startswith("\\l"):
                return []
        if step["status"] in self.tool.CHECKED:
            got = self.alive(engine, self.tool.inputs(given))
            plain = dict(step, output=step["output"].replace("\u00a0", " "))
            return [self.record(page, block, plain, got)] if block["trust"] in trust else []
        if step["status"] in self.tool.RUN_ONLY or step["status"] in FOR_THE_STATE and not OUTWARD.search(given):
            self.alive(engine, self.tool.inputs(given))
        return []

    def alive(self, engine, text):
        got = engine.ask(text)
        if got is None or engine.process.poll() is not None:
            engine.start()
        return got


def flat(text):
    return " ".join(text.split())
