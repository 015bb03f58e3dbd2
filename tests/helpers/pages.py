"""Reads the pages and pictures of a replay, as a browser would."""

import io
import json
import re
from html.parser import HTMLParser

import numpy as np
from PIL import Image


class Parsed(HTMLParser):
    """What a browser would make of a page: elements, texts outside of scripts, and the data."""

    def __init__(self):
        super().__init__()
        self.elements, self.texts, self.scripts, self._inside = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag):
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data):
        (self.scripts if self._inside else self.texts).append(data)

    @property
    def text(self):
        return "".join(self.texts)

    @property
    def data(self):
        return json.loads(next(script for script in self.scripts if script.startswith('{"unit"')))


def parse(html):
    page = Parsed()
    page.feed(html)
    page.close()
    return page


def assert_self_contained(html):
    page = parse(html)
    assert not re.search(r"https?://|url\((?!#)|@import|\bfetch\(|XMLHttpRequest|import\(", html)
    for tag, attributes in page.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        assert not {"src", "href", "srcset", "action"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]


def assert_picture(content):
    image = Image.open(io.BytesIO(content))
    assert image.format == "PNG"
    assert image.width == 1200
    assert 800 < image.height < 4000
    assert len(set(np.asarray(image.convert("L")).ravel())) > 20  # something is drawn
