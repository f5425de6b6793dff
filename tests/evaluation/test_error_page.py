"""The page of errors: what an HTML parser finds in it is what was given."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from spansieve.data.example import Example
from spansieve.evaluation import analyse_errors
from spansieve.evaluation.error_page import error_page

TOKEN = st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1, max_size=8) | st.sampled_from(
    ["<script>", "</mark>", "&lt;", "'\"", "<!--", "]]>", "الكتاب"]
)
OPEN = {"meta", "tr", "td", "th"}  # elements that HTML closes by itself


class Parsed(HTMLParser):
    """The tags of a page, whether they nest, and the text of each sentence without the labels."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.around, self.sentences, self.depth = set(), [], [], None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag not in OPEN:
            self.around.append(tag)
        if ("dir", "auto") in attributes:
            self.depth = len(self.around)
            self.sentences.append("")

    def handle_endtag(self, tag):
        assert self.around.pop() == tag
        if self.depth is not None and len(self.around) < self.depth:
            self.depth = None

    def handle_data(self, text):
        if self.depth is not None and self.around[-1] != "small":
            self.sentences[-1] += text


@st.composite
def sentences(draw):
    tokens = draw(st.lists(TOKEN, min_size=1, max_size=6))
    spans = [(i, j) for i in range(len(tokens)) for j in range(i + 1, len(tokens) + 1)]
    segment = st.tuples(st.sampled_from(spans), TOKEN).map(lambda s: (*s[0], s[1]))
    gold, predicted = draw(st.sets(segment, max_size=4)), draw(st.sets(segment, max_size=4))
    return Example.of(tokens, sorted(gold)), Example.of(tokens, sorted(predicted)).segments


@given(st.lists(sentences(), min_size=1, max_size=4))
def test_any_text_is_shown_as_it_is(corpus):
    """Whatever overlaps: tags nest, there are none but ours, and each sentence with errors is there twice."""
    examples, predicted = [example for example, _ in corpus], [segments for _, segments in corpus]
    analysis = analyse_errors([example.segments for example in examples], predicted)
    page = error_page("<title>", examples, [dict.fromkeys(segments, 0.5) for segments in predicted], analysis)
    parsed = Parsed(page)
    assert parsed.around == []
    assert not parsed.tags & {"script", "img", "link", "iframe", "a", "object"}
    assert "default-src 'none'" in page
    wrong = {error.sentence for error in analysis.errors}
    shown = sorted(" ".join(examples[number].tokens) for number in wrong for _ in range(2))
    assert sorted(parsed.sentences) == shown
    assert all(kind in page for kind in {error.kind for error in analysis.errors})


def test_the_worst_come_first():
    examples = [Example.of("a b c", [(0, 1, "X")]) for _ in range(3)]
    predicted = [{}, {(0, 1, "Y"): 0.9}, {(1, 2, "X"): 0.2}]  # one error, one of which it is sure, two
    analysis = analyse_errors([e.segments for e in examples], [list(p) for p in predicted], [[], [0.9], [0.2]])
    predicted = [dict(zip(Example.of("a b c", list(row)).segments, row.values())) for row in predicted]
    page = error_page("title", examples, predicted, analysis)
    places = [page.index(f"sentence {number}<") for number in (2, 1, 0)]
    assert places == sorted(places)
    assert "Y 0.90" in page
    assert error_page("title", examples, predicted, analysis, max_sentences=1).count("<article>") == 1


def test_nested_ones_close_from_within():
    example = Example.of("Bank of <China>", [(0, 3, "ORG"), (2, 3, "LOC"), (0, 1, "X")])
    page = error_page("title", [example], [{}], analyse_errors([example.segments], [[]]))
    assert "&lt;China&gt;<small>LOC</small></mark><small>ORG</small></mark>" in page
    assert "Bank<small>X</small></mark> of" in page
