"""Pages of HTML as tests read them."""

import collections
import html.parser
import re

VOID = {"meta", "link", "img", "input", "br"}


class Page(html.parser.HTMLParser):
    """The elements of a page as (tag, attributes), with its text; raises AssertionError for tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.words = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.words.append(text)

    def find(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def check(text):
    """Return a page that opens without a request, with a name for all that is not text."""
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>") and len(text.encode()) < 5_000_000
    for tag, attributes in page.elements:
        for name in ("src", "srcset", "href", "data", "action", "poster"):
            assert re.match(r"#|data:", attributes.get(name, "#")), (tag, attributes)
    assert "@import" not in text and "url(http" not in text and "fetch(" not in text
    assert len(page.find("script")) == 1 and "alert(1)" not in text[text.index("<script>"):]
    assert all(attributes.get("alt") for attributes in page.find("img"))
    assert all(attributes.get("scope") in ("row", "col") for attributes in page.find("th"))
    assert all(attributes.get("aria-label") for _, attributes in page.elements if attributes.get("role") in
               ("img", "region"))
    ids = collections.Counter(attributes["id"] for _, attributes in page.elements if "id" in attributes)
    assert set(ids.values()) == {1}
    for link in re.findall(r'(?:href="|url\()#([\w-]+)', text):
        assert link in ids
    assert "width=device-width" in text and "prefers-color-scheme: dark" in text
    assert page.find("html") == [{"lang": "en"}] and len(page.find("h1")) == len(page.find("main")) == 1
    return page
