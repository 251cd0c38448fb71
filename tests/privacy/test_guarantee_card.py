"""The guarantee in a notebook: the words of the card, and nothing that reaches beyond it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from skdp import Guarantee
from skdp.geometry import LpBall
from skdp.mechanisms import Sensitivity, calibrate

PURE = Guarantee(1.0, mechanism="laplace", assumptions=("bounds are public", "one row each"))
VOID = Guarantee(1.0, void_because=("the noise came from random_state",))
SMOOTH = calibrate("gaussian", Sensitivity(LpBall(2)), epsilon=0.5, delta=1e-6).guarantee


class Reader(HTMLParser):
    """Collects text, tags and attributes, and sees that every tag is closed."""

    def __init__(self, text):
        super().__init__()
        self.text, self.tags, self.open, self.attributes = [], [], [], set()
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def letters(text):
    return re.sub(r"[\s-]+", "", text)


@pytest.mark.parametrize("guarantee", [PURE, VOID, SMOOTH], ids=["pure", "void", "gaussian"])
def test_the_words_are_those_of_the_printed_card(guarantee):
    """All of them, in the same order."""
    assert letters("".join(Reader(guarantee._repr_html_()).text)) == letters(str(guarantee))


def test_a_void_guarantee_looks_different():
    """In words and in colour; one that holds has neither."""
    assert "THIS GUARANTEE DOES NOT HOLD" in VOID._repr_html_()
    assert "c62828" in VOID._repr_html_()
    for holds in (PURE, SMOOTH):
        assert "DOES NOT HOLD" not in holds._repr_html_()
        assert "c62828" not in holds._repr_html_()


def test_text_is_escaped():
    """A mechanism's name cannot bring markup of its own."""
    made = Guarantee(1.0, mechanism="<b>bold</b> & more", assumptions=("<script>x</script>",))
    read = Reader(made._repr_html_())
    assert set(read.tags) == {"div"}
    assert "<b>bold</b> & more" in read.text
