#!/usr/bin/env python3
"""Runs every command of README.md and docs/guide, and compares every listing there with what came.

Usage: tests/guide.py WHARF [PAGE...]

A block ```sh runs as it stands, with `wharf` in PATH, in a clean directory that has `data`, as root of a machine of its own: a network
namespace with the interfaces eth0 (10.0.0.1) and eth1 (10.1.0.1), which lead to eth0 (10.0.0.2) and eth1 (10.1.0.2) of the namespace `far`.
A block ```text behind it is what it prints: any number stands for any number, `...` for any lines. Comments before a block say more:
  <!-- setup: COMMANDS -->  run before it, on the same machine        <!-- ends: 2 -->  Ctrl-C comes after 2 seconds
  <!-- exits: 1 -->         its exit code, if not 0                   <!-- no-run: REASON -->  why a block ```sh,no-run is not run
Blocks of README.md that begin with cargo build the checkout: the suite for packages does that. Blocks ```toml, ```json and ```python
parse; a page with a block ```rust is a doctest of examples/guides; ```screen is what a terminal showed once. What a reader types has 78
columns at most, and a sentence 32 words."""
import concurrent.futures, json, os, re, signal, subprocess, sys, tempfile, threading, time, tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BOUND_S = 60
COLUMNS_MAX, WORDS_MAX = 78, 32
# The machine is the one of docs/guide/README.md, without IPv6: its hosts send by themselves.
QUIET = """for space in host far; do
  in=; [ $space = far ] && in="ip netns exec far"
  $in sh -c 'for at in all default; do echo 1 >/proc/sys/net/ipv6/conf/$at/disable_ipv6; done'
done
"""
RIG = open(f"{ROOT}/docs/guide/README.md").read().split("unshare --net --mount bash\n")[1].split("```")[0]
MACHINE = 'cd "$1"\n' + RIG.replace("ip netns add far\n", "ip netns add far\n" + QUIET)


def blocks(page):
    """Yields (language, text, notes, line, directly behind the block before) of a page's fenced blocks."""
    lines = open(page, encoding="utf-8").read().split("\n")
    at, last_end, notes = 0, -1, {}
    while at < len(lines):
        line = lines[at]
        comment = re.match(r"<!-- (setup|ends|exits|no-run): (.*)", line)
        if comment:
            text = comment[2]
            while "-->" not in text:
                at += 1
                text += "\n" + lines[at]
            notes[comment[1]] = text.split("-->")[0].strip()
        elif line.startswith("```"):
            begin = at
            at += 1
            while lines[at] != "```":
                at += 1
            behind = last_end >= 0 and not "".join(lines[last_end + 1 : begin]).strip()
            yield line[3:].strip(), "\n".join(lines[begin + 1 : at]), notes, begin + 1, behind
            notes, last_end = {}, at
        at += 1


def masked(line):
    """The shape of a line: numbers and their units' scale do not count."""
    line = re.sub(r"\d[\d.,\u202f]*", "#", line)
    line = re.sub(r"# ?[kMG]?(pps|bit/s)", r"# \1", line)
    line = re.sub(r"# ?(?:[kKMG]i?)?B\b", "# B", line)
    line = re.sub(r"# ?(?:ns|µs|us|ms|s)\b", "# s", line)
    line = re.sub(r"\bnone\b|-#", "#", line) if re.match(r"\S.*  +\S", line) else line
    return re.sub(r"\s+", " ", re.sub("[█▏▎▍▌▋▊▉]+", "█", line)).strip()


def unwrapped(text):
    """The lines of a text that are not empty. Sentences are wrapped by their numbers' width: a line after two spaces continues one."""
    return [line for line in re.sub(r"\n  (?=\S)", " ", text).split("\n") if line.strip()]


def lacks(listing, output):
    """The first line of the first part of the listing (between lines `...`) that the output lacks, or nothing."""
    have = [masked(line) for line in unwrapped(output)]
    at = 0
    for part in re.split(r"(?m)^\.\.\.$", listing):
        lines = unwrapped(part)
        want = [masked(line) for line in lines]
        places = range(at, len(have) - len(want) + 1)
        place = next((place for place in places if have[place : place + len(want)] == want), None)
        if place is None:
            absent = (line for line, shape in zip(lines, want) if shape not in have[at:])
            return next(absent, f"{lines[0]} (with the lines that follow it, in this order)")
        at = place + len(want)
    return None


def run(script, folder, wharf, notes, scale):
    """Runs a block on a machine of its own; returns the exit code and the output."""
    setup = f"exec 3>&1 >/dev/null 2>&1\n{notes.get('setup', '')}\nexec >&3 2>&1\n"
    text = f"{MACHINE}\n{setup}\nset -e -o pipefail\n{script}\nwait\n"
    environment = {"PATH": f"{os.path.dirname(wharf)}:{os.environ['PATH']}", "HOME": folder, "TERM": "dumb", "COLUMNS": "100", "LANG": "C.UTF-8"}
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", text, "block", folder]
    run = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    timers = [threading.Timer(BOUND_S, run.kill)]
    if "ends" in notes:
        timers.append(threading.Timer(scale * (float(notes["ends"]) + 0.3), os.killpg, (run.pid, signal.SIGINT)))
    for timer in timers:
        timer.start()
    output = run.communicate()[0].decode(errors="replace")
    for timer in timers:
        timer.cancel()
    return run.returncode, output


def check_block(language, text, notes, is_doctest):
    """The fault of a block that is not run, or nothing."""
    if language == "sh,no-run":
        return None if notes.get("no-run") else "no reason: <!-- no-run: ... -->"
    if language == "toml":
        tomllib.loads(text)
    elif language == "json":
        [json.loads(line) for line in text.split("\n") if line.strip()]
    elif language == "python":
        compile(text, "block", "exec")
    elif language == "rust":
        return None if is_doctest else "the page is no doctest: add it to examples/guides/src/lib.rs"
    elif language == "text":
        return "it follows no block that is run"
    elif language not in ("ini", "yaml", "screen"):
        return f"unknown language {language!r}: sh, sh,no-run, text, rust, toml, json, python, ini, yaml or screen"
    return None


def long_sentences(path):
    """Yields (line, fault) of each sentence, or part of one up to a colon, that has too many words. Tables, headings and blocks have none."""
    prose, begin, is_block = [], 1, False
    for number, line in enumerate(open(path, encoding="utf-8").read().split("\n") + [""], 1):
        is_block ^= line.lstrip().startswith("```")
        is_prose = line and not is_block and not line.lstrip().startswith(("```", "|", "#", "<"))
        if not is_prose or re.match(r" *(-|\d+\.) ", line):
            text = re.sub(r"`[^`]*`|\]\([^)]*\)", "X", " ".join(prose))
            for sentence in re.split(r"(?<=[.!?:;]) ", text):
                if len(sentence.split()) > WORDS_MAX:
                    yield begin, f"{len(sentence.split())} words, of {WORDS_MAX} at most: {sentence[:70]}..."
            prose, begin = [], number
        prose += [line.strip()] if is_prose else []


def run_block(block, listings, folder, wharf):
    """Runs a block and compares its listings; returns pairs of line and fault. Up to three times, with more time before Ctrl-C: the machine may be busy."""
    _, text, notes, line, _ = block
    for scale in 1, 3, 6:
        code, output = run(text, folder, wharf, notes, scale)
        shown = "\n  ".join(output.split("\n")[-40:])
        faults = [] if code == int(notes.get("exits", 0)) else [(line, f"exit code {code}\n  {shown}")]
        for _, listing, _, at, _ in listings:
            missing = lacks(listing, output)
            faults += [(at, f"not printed: {missing}\n  {shown}")] if missing else []
        if not faults:
            break
    return faults


def page(path, wharf):
    """Returns the faults of a page, and the number of blocks run."""
    name, faults, ran, at = os.path.relpath(path, ROOT), list(long_sentences(path)), 0, 0
    doctests = open(f"{ROOT}/examples/guides/src/lib.rs").read()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.symlink(f"{ROOT}/data", f"{folder}/data")
        all_blocks = list(blocks(path))
        while at < len(all_blocks):
            language, text, notes, line, _ = block = all_blocks[at]
            at, begin = at + 1, at + 1
            if language not in ("text", "screen", "rust") and max(map(len, text.split("\n"))) > COLUMNS_MAX:
                faults.append((line, f"a line of more than {COLUMNS_MAX} columns"))
            if language == "sh" and not (name == "README.md" and text.startswith("cargo ")):
                while at < len(all_blocks) and all_blocks[at][0] == "text" and all_blocks[at][4]:
                    at += 1
                faults += run_block(block, all_blocks[begin:at], folder, wharf)
                ran += 1
            elif language != "sh":
                try:
                    fault = check_block(language, text, notes, f"/{name}\")]" in doctests)
                except (ValueError, SyntaxError) as error:
                    fault = str(error)
                faults += [(line, fault)] if fault else []
    return [f"{name}:{line}: {fault}" for line, fault in faults], ran


def main():
    wharf, started = os.path.abspath(sys.argv[1]), time.monotonic()
    guide = f"{ROOT}/docs/guide"
    all_pages = (f"{folder}/{name}" for folder, _, names in os.walk(guide) for name in names if name.endswith(".md"))
    pages = sys.argv[2:] or [f"{ROOT}/README.md"] + sorted(all_pages)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda path: page(os.path.abspath(path), wharf), pages))
    faults = [fault for result in results for fault in result[0]]
    print("\n".join(faults + [f"{sum(result[1] for result in results)} blocks of {len(pages)} pages run in {time.monotonic() - started:.0f} s, {len(faults)} faults"]))
    sys.exit(bool(faults))


main()
