"""Checks of a built site: every link and anchor exists, nothing is loaded from the network, no formula is raw TeX."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["broken", "faults", "loaded", "raw"]

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
VERBATIM = ("code", "pre", "script", "style")
TEX = re.compile(r"\$\$|\\[(\[]|\\[a-zA-Z]+[{_^ ]|\$[^$]*\\[a-zA-Z]")
VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")


class _Page(HTMLParser):
    """Links, anchors, loaded files and running text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = {"", "top"}
        self.loads: set[str] = set()
        self.text: list[str] = []
        self._open: list[bool] = []  # for each open element: its text is verbatim or a formula

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.places.add(value or "")
            elif name in ("href", "src") and value:
                self.links.add(value)
        loaded = given.get(LOADS.get(tag, "")) or (tag == "link" and "style" in str(given.get("rel")) and given["href"])
        self.loads |= {loaded} if loaded else set()
        if tag not in VOID:
            formula = "math" in (given.get("class") or "").split()
            self._open.append(bool(self._open and self._open[-1]) or formula or tag in VERBATIM)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and self._open:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if not (self._open and self._open[-1]):
            self.text.append(data)


def _pages(site: Path) -> dict[Path, _Page]:
    found = {}
    for path in sorted(site.resolve().rglob("*.html")):
        found[path] = page = _Page()
        page.feed(path.read_text(encoding="utf-8"))
    return found


def faults(site: Path) -> list[str]:
    """Return a line for every fault of a site."""
    checks = {"broken link": broken, "loaded from the network": loaded, "raw TeX": raw}
    return [f"{name} in {each}" for name, check in checks.items() for each in check(site)]


def broken(site: Path) -> list[str]:
    """Return ``page: link`` for every broken link within the site."""
    pages, found = _pages(site), []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            if not target.exists() or (target in pages and place not in pages[target].places):
                found.append(f"{path.relative_to(site.resolve())}: {link}")
    return found


def loaded(site: Path) -> list[str]:
    """Return ``page: address`` for every script, style or picture that a page loads from the network."""
    return [
        f"{path.relative_to(site.resolve())}: {address}"
        for path, page in _pages(site).items()
        for address in sorted(page.loads)
        if urlsplit(address).netloc
    ]


def raw(site: Path) -> list[str]:
    """Return ``page: text`` for every formula that is left as TeX in running text."""
    return [
        f"{path.relative_to(site.resolve())}: {' '.join(text.split())[:80]}"
        for path, page in _pages(site).items()
        for text in page.text
        if TEX.search(text)
    ]
