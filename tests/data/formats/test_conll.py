"""CoNLL columns in all their shapes."""

from __future__ import annotations

import pytest

from spansieve.data.example import DataError, Example, ReaderWarnings
from spansieve.data.formats.conll import read_conll, write_conll
from spansieve.data.tag_schemes import SCHEMES

ADA = Example.of("Ada Lovelace met Bob", [(0, 2, "PER"), (3, 4, "PER")])


def read(tmp_path, text, **options):
    path = tmp_path / "file.conll"
    path.write_text(text, encoding="utf-8")
    return read_conll(path, **options)


@pytest.mark.parametrize(
    "text",
    [
        "Ada B-PER\nLovelace I-PER\nmet O\nBob B-PER\n",
        "Ada\tB-PER\nLovelace\tI-PER\nmet\tO\nBob\tB-PER",
        "Ada NNP I-NP I-PER\nLovelace NNP I-NP I-PER\nmet VBD I-VP O\nBob NNP I-NP I-PER\n\n",
        "Ada  B-PER\n  Lovelace   E-PER\nmet O\nBob S-PER\n",
        "Ada\tB-PER \nLovelace\tI-PER\nmet\tO \nBob\tB-PER\n",
        "Ada B-PER\nLovelace L-PER\nmet O\nBob U-PER\n",
        "Ada PER\nLovelace PER\nmet O\nBob PER\n",
        "1 Ada B-PER\n2 Lovelace I-PER\n3 met O\n4 Bob B-PER\n",
        "\n\n\nAda B-PER x\nLovelace I-PER x\nmet O x\nBob B-PER x\n\n\n\n",
        "# global.columns = NER:TAG LEMMA FORM\nB-PER\tada\tAda\nI-PER\t_\tLovelace\nO\tmeet\tmet\nB-PER\tbob\tBob\n",
        "# sent_id = 1\n# text = Ada Lovelace met Bob\nAda\tB-PER\nLovelace\tI-PER\nmet\tO\nBob\tB-PER\n",
        "# id 7 domain=en\nAda _ _ B-PER\nLovelace _ _ I-PER\nmet _ _ O\nBob _ _ B-PER\n",
    ],
)
def test_one_sentence_in_many_shapes(tmp_path, text):
    assert read(tmp_path, text) == [ADA]


def test_columns_can_be_named_or_numbered(tmp_path):
    text = "B-PER x Ada B-NP\nO y came O\n"
    assert read(tmp_path, text, token_column=2, tag_column=0) == [Example.of("Ada came", [(0, 1, "PER")])]
    assert read(tmp_path, text, token_column=2)[0].segments == ((0, 1, "NP"),)
    headed = "# global.columns = FORM CHUNK NER\n" + "Ada\tB-NP\tB-PER\n"
    assert read(tmp_path, headed, tag_column="CHUNK")[0].segments == ((0, 1, "NP"),)
    with pytest.raises(DataError, match="must have a column named 'POS', it has FORM, CHUNK, NER"):
        read(tmp_path, headed, tag_column="POS")


def test_several_tag_columns_give_nested_segments(tmp_path):
    text = "1\tBank\tB-ORG\tO\n2\tof\tI-ORG\tO\n3\tChina\tI-ORG\tB-LOC\n"
    (example,) = read(tmp_path, text, tag_column=[2, 3])
    assert example == Example.of("Bank of China", [(0, 3, "ORG"), (2, 3, "LOC")])


def test_documents_begin_at_docstart_and_are_no_sentences(tmp_path):
    text = "-DOCSTART- -X- -X- O\n\nAda\tNNP\tO\tI-PER\n\n-DOCSTART- (two)\n\ncame VBD O O\n\n"
    text += "# newdoc id = three\nBob NNP O O\n"
    examples = read(tmp_path, text)
    assert [(e.tokens, e.document) for e in examples] == [
        (("Ada",), "file.conll-1"),
        (("came",), "two"),
        (("Bob",), "three"),
    ]


def test_a_hash_can_be_a_token(tmp_path):
    (example,) = read(tmp_path, "#\tO\n#ada\tB-PER\n")
    assert example == Example.of("# #ada", [(1, 2, "PER")])
    assert read(tmp_path, "go O\n# O\n# a comment\n") == [Example.of("go #")]


def test_odd_tokens_stay_whole(tmp_path):
    (example,) = read(tmp_path, "1\u00a0000 O\na\u2028b O\n\u00a0 O\n")
    assert example.tokens == ("1\u00a0000", "a\u2028b", "\u00a0")
    assert read(tmp_path, "New York\tB-LOC\n")[0].tokens == ("New York",)


@pytest.mark.parametrize("text", ["", "\n\n", "-DOCSTART- -X- O O\n\n", "# nothing but a remark\n"])
def test_a_file_without_sentences_is_empty(tmp_path, text):
    assert read(tmp_path, text) == []


def test_sentences_of_one_token_and_without_entities_are_ordinary(tmp_path):
    assert read(tmp_path, "Yes O\n\nAda B-PER\n\nNo O\n") == [
        Example.of("Yes"), Example.of("Ada", [(0, 1, "PER")]), Example.of("No")
    ]  # fmt: skip


def test_a_missing_column_is_told_with_its_line(tmp_path):
    with pytest.raises(DataError, match=r"file\.conll line 2: must have at least 2 columns.* got 1 column: 'came'"):
        read(tmp_path, "Ada B-PER\ncame\n")
    with pytest.raises(DataError, match=r"line 1: must have at least 4 columns"):
        read(tmp_path, "Ada B-PER\n", tag_column=3)
    with pytest.raises(DataError, match=r"line 2: must have a token in column 0, got an empty one"):
        read(tmp_path, "Ada\tB-PER\n\tO\n")


def test_ill_formed_tags_are_read_leniently_and_strictly_refused(tmp_path):
    text = "came O\n\na B-PER\nb I-ORG\n"
    warnings = ReaderWarnings()
    assert read(tmp_path, text, warnings=warnings)[1].segments == ((0, 1, "PER"), (1, 2, "ORG"))
    assert str(warnings).startswith("1 × sentences whose tags are not well-formed BIO, read as conlleval does (")
    read(tmp_path, text, scheme="iob2", warnings=warnings)  # another name of BIO
    assert len(warnings.counts) == 2
    assert "file.conll line 3" in str(warnings)
    with pytest.raises(DataError, match=r"file\.conll line 3, the sentence that begins there: tag 2 breaks BIO"):
        read(tmp_path, text, scheme="BIO", strict=True)
    with pytest.raises(DataError, match=r"file\.conll: tags must all have a prefix or none"):
        read(tmp_path, "a B-PER\nb ORG\n")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["out.conll", "out.conll.gz"])
def test_written_and_read_again(tmp_path, scheme, name):
    examples = [
        Example.of("# Ada 's", [(1, 2, "PER")], document="one"),
        Example(("New York", "x"), ((0, 1, "LOC"),), document="two"),
        Example.of("Yes"),
    ]
    write_conll(examples, tmp_path / name, scheme=scheme)
    again = read_conll(tmp_path / name)
    assert [(e.tokens, e.segments) for e in again] == [(e.tokens, e.segments) for e in examples]
    assert [e.document for e in again[:2]] == ["one", "two"]


def test_what_columns_cannot_hold_is_noted_or_refused(tmp_path):
    warnings = ReaderWarnings()
    nested = Example.of("Bank of China", [(0, 3, "ORG"), (2, 3, "LOC")])
    write_conll([nested, Example.of("")], tmp_path / "a.conll", warnings=warnings)
    assert dict(warnings) == {
        "overlapping entities dropped, since tags are flat": 1,
        "sentences without tokens left out": 1,
    }
    assert read_conll(tmp_path / "a.conll") == [Example.of("Bank of China", [(0, 3, "ORG")])]
    with pytest.raises(DataError, match=r"must not be empty or hold tabs or line ends, got 'a\\tb' in sentence 1"):
        write_conll([Example(("a\tb",))], tmp_path / "b.conll")
    write_conll([], tmp_path / "c.conll")
    assert read_conll(tmp_path / "c.conll") == []
