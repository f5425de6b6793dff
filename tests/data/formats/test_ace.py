"""ACE 2005: offsets without markup, heads and extents, copies, two languages."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape

import pytest

from spansieve.data.example import DataError, ReaderWarnings
from spansieve.data.formats.ace import read_ace

SOURCE = """<DOC>
<DOCID> D1 </DOCID>
<BODY>
<HEADLINE>
Ada in Paris
</HEADLINE>
<TEXT>
<TURN>
<SPEAKER> Ada </SPEAKER>
The mayor of Paris left. AT&amp;T stayed
with Bob
</TURN>
</TEXT>
</BODY>
</DOC>
"""
ARABIC = "<DOC>\n<TEXT>\nزار الرئيس مصر. ثم عاد إلى فرنسا.\n</TEXT>\n</DOC>\n"


def mention(text, extent, head, label, kind="NAM", number=0):
    def characters(words):
        start = [match.start() for match in re.finditer(re.escape(words), text)][number]
        return f'<charseq START="{start}" END="{start + len(words) - 1}">{escape(words)}</charseq>'

    return (
        f'<entity ID="E" TYPE="{label}" SUBTYPE="x"><entity_mention ID="M" TYPE="{kind}">'
        f"<extent>{characters(extent)}</extent><head>{characters(head)}</head></entity_mention></entity>"
    )


def write_pair(folder, name, source, *mentions):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.sgm").write_text(source, encoding="utf-8")
    body = "".join(mentions)
    (folder / f"{name}.apf.xml").write_text(
        f'<?xml version="1.0"?>\n<!DOCTYPE source_file SYSTEM "apf.v5.1.1.dtd">\n'
        f'<source_file URI="{name}.sgm"><document DOCID="{name}">{body}</document></source_file>',
        encoding="utf-8",
    )
    return folder / f"{name}.sgm"


def found(examples):
    return {(example.words(segment), segment.label) for example in examples for segment in example.segments}


@pytest.fixture
def english(tmp_path):
    text = re.sub(r"<[^>]+>", "", SOURCE)
    return write_pair(
        tmp_path / "english",
        "D1",
        SOURCE,
        mention(text, "The mayor of Paris", "mayor", "PER", "NOM"),
        mention(text, "Paris", "Paris", "GPE", number=1),
        mention(text, "Ada", "Ada", "PER", number=1),
        mention(text, "AT&amp;T", "AT&amp;T", "ORG"),
        mention(text, "Paris", "Paris", "GPE", number=0),
        mention(text, "Bob", "Bob", "PER"),
    )


def test_heads_and_extents(english):
    warnings = ReaderWarnings()
    heads = read_ace(english, warnings=warnings)
    assert found(heads) == {("mayor", "PER"), ("Paris", "GPE"), ("Ada", "PER"), ("AT&T", "ORG"), ("Bob", "PER")}
    assert dict(warnings)["mentions outside <TEXT> left out"] == 1
    extents = read_ace(english.with_name("D1.apf.xml"), spans="extent")
    assert ("The mayor of Paris", "PER") in found(extents)
    assert found(read_ace(english, spans="extent", mentions=["NOM"])) == {("The mayor of Paris", "PER")}
    assert [example.tokens[0] for example in heads] == ["Ada", "The", "AT&T"]
    assert {example.document for example in heads} == {"D1"}


def test_offsets_may_count_an_escape_as_one_character(tmp_path):
    source = "<DOC>\n<TEXT>\nAT&amp;T hired Ada\n</TEXT>\n</DOC>"
    text = "\n\nAT&T hired Ada\n"
    path = write_pair(tmp_path, "D", source, mention(text, "AT&T", "AT&T", "ORG"), mention(text, "Ada", "Ada", "PER"))
    assert found(read_ace(path)) == {("AT&T", "ORG"), ("Ada", "PER")}


def test_a_tag_without_a_name_is_no_more_than_a_break(tmp_path):
    path = write_pair(tmp_path, "D", "<DOC><TEXT>Ada < > left</TEXT></DOC>", mention("Ada  left", "Ada", "Ada", "PER"))
    assert [(example.tokens, example.segments) for example in read_ace(path)] == [
        (("Ada",), ((0, 1, "PER"),)),
        (("left",), ()),
    ]


def test_arabic(tmp_path):
    text = re.sub(r"<[^>]+>", "", ARABIC)
    path = write_pair(tmp_path, "A", ARABIC, mention(text, "مصر", "مصر", "GPE"), mention(text, "فرنسا", "فرنسا", "GPE"))
    examples = read_ace(path)
    assert len(examples) == 2
    assert found(examples) == {("مصر", "GPE"), ("فرنسا", "GPE")}
    for example in examples:
        assert [example.text[start:end] for start, end in example.offsets] == list(example.tokens)


def test_of_several_copies_the_normalised_one_is_read(tmp_path):
    source = "<DOC><TEXT>Ada left</TEXT></DOC>"
    write_pair(tmp_path / "nw" / "adj", "D", source)
    write_pair(tmp_path / "nw" / "fp1", "D", source)
    write_pair(tmp_path / "nw" / "timex2norm", "D", source, mention("Ada left", "Ada", "Ada", "PER"))
    warnings = ReaderWarnings()
    assert found(read_ace(tmp_path, warnings=warnings)) == {("Ada", "PER")}
    assert warnings.counts["copies of a document left out"] == 2


def test_a_mention_that_is_not_in_the_text_is_noted(tmp_path):
    path = write_pair(tmp_path, "D", "<DOC><TEXT>Ada left</TEXT></DOC>", mention("Bob left", "Bob", "Bob", "PER"))
    warnings = ReaderWarnings()
    assert found(read_ace(path, warnings=warnings)) == set()
    assert warnings.counts["mentions left out whose characters are not those of the text"] == 1


def test_what_is_wrong_is_told(tmp_path, english):
    with pytest.raises(ValueError, match="spans must be head or extent, got 'name'"):
        read_ace(english, spans="name")
    broken = write_pair(tmp_path / "broken", "B", "<DOC><TEXT>x</TEXT></DOC>", "<entity>")
    with pytest.raises(DataError, match=r"B\.apf\.xml line 3: must be XML, got mismatched tag"):
        read_ace(broken)
    english.unlink()
    with pytest.raises(DataError, match=r"must have a \.sgm and a \.apf\.xml file side by side, got no .*D1\.sgm"):
        read_ace(english.parent)
