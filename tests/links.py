#!/usr/bin/env python3
"""Checks the relative links of all tracked pages, and of a built book: files exist, and so do headings that are linked to.

Usage: tests/links.py [BOOK]"""
import html.parser, os, re, subprocess, sys, urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GUIDE = f"{ROOT}/docs/guide"


def prose(page):
    """The text of a page without fenced blocks and code."""
    text = re.sub(r"(?ms)^```.*?^```", "", open(page, encoding="utf-8").read())
    return re.sub(r"`[^`\n]*`", lambda code: "x" if "](" in code[0] else code[0], text)


def anchors(page):
    """The anchors of a page's headings, as GitHub and mdBook make them."""
    headings = re.findall(r"(?m)^#+ (.*)", prose(page))
    words = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)
    return set(words)


def faults_of(page):
    """Yields what is wrong with the links of a page."""
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(target):
            yield f"no such file: {link}"
        elif anchor and target.endswith(".md") and anchor not in anchors(target):
            yield f"no such heading: {link}"
        elif page.startswith(f"{GUIDE}/") and target.endswith(".md") and not target.startswith(f"{GUIDE}/"):
            yield f"the book has no such page, link to the folder: {link}"


class Page(html.parser.HTMLParser):
    """The links and anchors of a page of the book, and addresses that it would load."""

    def __init__(self, page):
        super().__init__()
        self.links, self.ids, self.loads = [], set(), []
        self.feed(open(page, encoding="utf-8").read())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids.add(values.get("id"))
        link = values.get("href") if tag in ("a", "link") else values.get("src")
        if link:
            (self.loads if tag != "a" else self.links).append(link)


def faults_of_book(book):
    """Yields what is wrong with a built book."""
    names = [f"{folder}/{name}" for folder, _, names in os.walk(book) for name in names if name.endswith(".html")]
    pages = {name: Page(name) for name in names if os.path.basename(name) not in ("404.html", "toc.html")}
    for name, page in pages.items():
        at = os.path.relpath(name, book)
        for link in page.loads:
            if re.match(r"([a-z]+:)?//", link):
                yield f"{at}: loads from outside: {link}"
        for link in page.links + page.loads:
            url = urllib.parse.urlparse(link)
            target = os.path.normpath(os.path.join(os.path.dirname(name), urllib.parse.unquote(url.path))) if url.path else name
            if url.scheme or url.netloc or (at == "print.html" and not url.path):
                continue
            if not os.path.exists(target):
                yield f"{at}: no such file: {link}"
            elif url.fragment and target in pages and urllib.parse.unquote(url.fragment) not in pages[target].ids:
                yield f"{at}: no such heading: {link}"


def main():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    pages = [f"{ROOT}/{name}" for name in listed.stdout.split("\n") if name and os.path.exists(f"{ROOT}/{name}")]
    faults = [f"{os.path.relpath(page, ROOT)}: {fault}" for page in pages for fault in faults_of(page)]
    for book in sys.argv[1:]:
        faults += faults_of_book(os.path.abspath(book))
    print("\n".join(faults + [f"links of {len(pages)} pages checked, {len(faults)} faults"]))
    sys.exit(bool(faults))


main()
