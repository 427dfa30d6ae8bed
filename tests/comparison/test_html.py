from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from greffon.comparison.html import Html, cards, confusion_table, forest, page, picture, section, table, tag

_VOID = {"meta", "br", "img", "source"}


class Balanced(HTMLParser):
    """Fails where a closing tag does not match, and keeps the text."""

    def __init__(self):
        super().__init__()
        self.open, self.words, self.tags = [], [], set()

    def handle_starttag(self, name, attributes):
        self.tags.add(name)
        if name not in _VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        self.words.append(data)


def parse(markup: str) -> Balanced:
    parser = Balanced()
    parser.feed(markup)
    parser.close()
    assert parser.open == []
    return parser


@given(st.text(alphabet="<>&\"'a script/", max_size=12))
def test_whatever_the_text_says_it_stays_text(words):
    parts = [tag("p", words), table([words], [[words]]), cards([words], [[words]]), section(words, words)]
    parsed = parse(page(words, *parts, confusion_table([words], [[3]])))
    assert "script" not in parsed.tags
    assert parsed.tags <= {
        *("html", "head", "meta", "title", "style", "body", "main", "p", "div", "table", "thead", "tbody"),
        *("tr", "th", "td", "span", "section", "h2"),
    }


def test_html_is_not_escaped_twice():
    assert tag("p", Html("<b>x</b>"), "a & b") == "<p><b>x</b>a &amp; b</p>"


def test_confusion_shares_are_of_the_row():
    markup = confusion_table(["a", "b"], [[3, 1], [0, 0]])
    assert '--share:75%">3<' in markup
    assert '--share:0%">0<' in markup


def test_forest_puts_zero_in_the_middle_and_the_edge_inside():
    markup = forest(0.05, -0.1, 0.1, limit=0.1)
    assert 'x1="5.0" x2="145.0"' in markup
    assert 'cx="110.0"' in markup
    assert 'cx="75"' in forest(0, 0, 0, limit=0)


def test_picture_holds_four_versions_and_a_description():
    markup = picture('a "figure"', (b"1", b"2"), (b"3", b"4"))
    assert markup.count("data:image/png;base64,") == 4
    assert 'alt="a &quot;figure&quot;"' in markup
