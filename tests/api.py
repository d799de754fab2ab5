#!/usr/bin/env python3
"""Lists the public API of the `wharf` crate and compares it with crates/wharf/api.txt.

Usage: tests/api.py [--write] [--built].  The list holds each public item with its methods, variants and fields, as rustdoc documents
them. A change of the API is a change of that file, so a review sees it. `--write` replaces the file. `--built`
takes the documentation of the whole workspace that Cargo has made already. The example programs use
`wharf` alone, and have at most 100 lines each.
"""
import pathlib, re, subprocess, sys

TOP = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = TOP / "crates/wharf/api.txt"
ITEM = re.compile(r'href="((?:[a-z_]+/)*)(struct|enum|trait|fn|type|constant|macro|static)\.(\w+)\.html"')
MEMBER = re.compile(r'id="(method|tymethod|variant|structfield|associatedconstant|associatedtype)\.(\w+)"')
PROGRAMS = [TOP / "crates/wharf/examples" / name for name in ("retransmit/main.rs", "echo.rs", "balance.rs", "capture.rs")]
PROGRAMS += sorted((TOP / "examples/own-device/src").glob("*.rs"))
# Methods of traits that every type has are no promise of ours.
FOREIGN = re.compile(r'<h2 id="(?:trait-implementations|synthetic-implementations|blanket-implementations|implementors|foreign-impls)"')
KINDS = {"constant": "const", "method": "fn", "tymethod": "fn", "structfield": "field", "associatedconstant": "const", "associatedtype": "type"}


def members(page):
    own = FOREIGN.split(page.read_text())[0]
    return sorted({(KINDS.get(kind, kind), name) for kind, name in MEMBER.findall(own)})


def listing(docs):
    lines = []
    for folder, kind, name in sorted(set(ITEM.findall((docs / "all.html").read_text())), key=lambda item: (item[0], item[2])):
        path = "wharf::" + folder.replace("/", "::") + name
        lines.append(f"{KINDS.get(kind, kind)} {path}")
        page = docs / f"{folder}{kind}.{name}.html"
        if kind in ("struct", "enum", "trait"):
            lines += [f"    {member} {path.rsplit('::', 1)[1]}::{of}" for member, of in members(page)]
    return lines


def misuses():
    """What is wrong with the example programs: they are a stranger's, who has `wharf` alone, and short."""
    for file in PROGRAMS:
        text = file.read_text()
        for name in sorted(set(re.findall(r"\bwharf_(?:core|devices|mem)\b", text))):
            yield f"{file.relative_to(TOP)} uses {name}"
        if len(text.splitlines()) > 100:
            yield f"{file.relative_to(TOP)} has more than 100 lines"


def main():
    if "--built" not in sys.argv[1:]:
        subprocess.run(["cargo", "doc", "--quiet", "-p", "wharf", "--no-deps", "--features", "vhost"], cwd=TOP, check=True)
    now = listing(TOP / "target/doc/wharf")
    if "--write" in sys.argv[1:]:
        GOLDEN.write_text("\n".join(now) + "\n")
        return 0
    wrong = list(misuses())
    print("\n".join(wrong), end="\n" if wrong else "")
    then = GOLDEN.read_text().splitlines()
    gone, new = [line for line in then if line not in now], [line for line in now if line not in then]
    for sign, lines in (("-", gone), ("+", new)):
        for line in lines:
            print(f"{sign} {line.strip()}")
    names = sum(not line.startswith(" ") for line in now)
    print(f"{names} public names of wharf, {len(now) - names} members of them; {len(gone)} gone, {len(new)} new")
    if gone or new:
        print("the public API has changed: if that is meant, run tests/api.py --write and commit crates/wharf/api.txt")
    return 1 if gone or new or wrong else 0


sys.exit(main())
