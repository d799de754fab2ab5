#!/usr/bin/env python3
"""Counts the lines of `programs/` that are Wharf's. (The compiler refuses what is not public.)

Usage: tests/programs.py RESULTS [-v].  RESULTS has a line for each program: NAME RESULT. Prints a table; with -v, also the lines that
are Wharf's. The exit code is 1 if a program failed, or is over its bound.

A line is Wharf's if one of these holds.
- It belongs to a `use wharf::...`.
- It names an item that the file takes from `wharf`.
- It has `.name` of a member of any item of the API. What `std` calls the same (`.len()`, `.push()`) counts all the same.
- It lies in an `impl` of a trait of Wharf's.
Comments, blank lines and lines of punctuation alone never count: the formatter makes the latter. A function outside an `impl` that
names no item of Wharf's, nor a type of the file that does, is the program's own. `my_device` and `my_qdisc` are counted up to
the line "The rest tries it out": the bounds, too, are those of the device and of the discipline.
"""
import pathlib, re, sys

TOP = pathlib.Path(__file__).resolve().parent.parent
# Lines that each took against the API of 2026-11-23, of which at most half may be left: those named as Wharf's, or all where no
# such number was told. `my_qdisc` had two disciplines.
BEFORE = {
    "retransmit": 111, "wedge": 217, "async_echo": 188, "quinn_socket": 170, "smoltcp_device": 65,
    "vpn": 57, "my_device": 88, "my_qdisc": 144, "multi_queue": 81, "metrics": 45,
}
# Lines that each of the later ones may have.
LATER = {"backpressure": 19, "cancel": 18, "errors": 11, "broker": 16, "relay": 28, "drop_in": 30, "name_server": 27, "fan_out": 32}
ALLOWED = {name: lines // 2 for name, lines in BEFORE.items()} | LATER
END = "// The rest tries it out."
PUNCTUATION = re.compile(r"[\W_]*")


def api():
    """Returns the names of items, and those of their members, with the headers' crate that is `wharf::net`."""
    items, members = set(), set()
    for line in (TOP / "crates/wharf/api.txt").read_text().splitlines():
        (members if line.startswith(" ") else items).add(line.rsplit("::", 1)[1])
    for file in (TOP / "crates/wharf-packet/src").rglob("*.rs"):
        members |= set(re.findall(r"^    pub (?:const )?(?:fn )?(\w+)\b[(:<]", file.read_text(), re.M))
    return items, members


def code(text):
    """Returns the lines without comments and the contents of strings."""
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    return [re.sub(r"//.*", "", line).rstrip() for line in text.splitlines()]


def uses(text):
    """Returns the paths below `wharf` that the file names: `Port`, `net::UdpHeaders`."""
    paths = set()
    for tree in re.findall(r"\bwharf::(\{[^;]*\}|[\w:]+(?:\{[^;}]*\})?)", text):
        prefix, brace, rest = tree.partition("{")
        paths |= {prefix + name for name in re.findall(r"[\w:]+", rest)} if brace else {prefix}
    return paths


def blocks(lines):
    """Yields the lines of each item of the file."""
    block = []
    for line in lines:
        block.append(line)
        if re.match(r"[})]|.*;$", line) and not line.startswith(" "):
            yield block
            block = []
    yield block


def wharfs(lines, names, members):
    """Returns the lines that are Wharf's."""
    has_name = lambda text, of: bool(of & set(re.findall(r"\w+", text)))
    own = {found[1] for block in blocks(lines) if has_name("\n".join(block), names)
           for found in re.finditer(r"^(?:pub )?(?:struct|enum|type) (\w+)", "\n".join(block), re.M)}
    kept = []
    for block in blocks(lines):
        text = "\n".join(block).lstrip("\n")
        trait = re.search(r"^impl(?:<[^{]*?>)? (\w+)(?:<[^{]*>)? for ", text, re.M)
        is_whole = text.startswith("use wharf::") or (trait and trait[1] in names)
        if re.match(r"(?:async )?fn |#\[tokio", text) and not has_name(text, names | own):
            continue
        kept += [line for line in block if not PUNCTUATION.fullmatch(line) and (
            is_whole or has_name(line, names) or set(re.findall(r"\.(\w+)", line)) & members)]
    return kept


def main():
    results = dict(line.split(maxsplit=1) for line in pathlib.Path(sys.argv[1]).read_text().splitlines())
    items, members = api()
    bad = 0
    print(f"{'program':<15} {'result':<8} {'lines':>5} {'of Wharf':>8} {'allowed':>7}")
    for name, allowed in ALLOWED.items():
        is_example = name == "retransmit"
        file = TOP / ("crates/wharf/examples/retransmit/main.rs" if is_example else f"programs/src/bin/{name}.rs")
        text = file.read_text()
        lines = code(text.split(END)[0])
        paths = uses("\n".join(code(text)))
        names = {path.split("::")[-1] for path in paths} - {"net"}
        kept = wharfs(lines, names, members)
        result = results.get(name, "not run")
        print(f"{name:<15} {result:<8} {len(text.splitlines()):>5} {len(kept):>8} {allowed:>7}"
              + ("  too many" if len(kept) > allowed else ""))
        if "-v" in sys.argv:
            print("\n".join(kept))
        bad += result != "ok" or len(kept) > allowed
    return 1 if bad else 0


sys.exit(main())
