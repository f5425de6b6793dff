"""OntoNotes 5 with its names in brackets."""

from __future__ import annotations

import pytest

from spansieve.data.example import DataError, Example, ReaderWarnings
from spansieve.data.formats.ontonotes import read_ontonotes


def rows(*pairs, document="nw/x/00/x_0001"):
    return "".join(
        f"{document}   0   {n}   {word}   NN   *   -   -   -   -   {name}   *   -\n"
        for n, (word, name) in enumerate(pairs)
    )


def document(*sentences, name="nw/x/00/x_0001", part="000"):
    return f"#begin document ({name}); part {part}\n" + "\n".join(sentences) + "\n#end document\n"


def test_brackets_become_segments(tmp_path):
    first = rows(("The", "(ORG*"), ("Bank", "*"), ("of", "*"), ("China", "(GPE))"), ("rose", "*"))
    second = rows(("Monday", "(DATE)"))
    (tmp_path / "x.gold_conll").write_text(document(first, second))
    assert read_ontonotes(tmp_path / "x.gold_conll") == [
        Example.of("The Bank of China rose", [(0, 4, "ORG"), (3, 4, "GPE")], document="nw/x/00/x_0001 part 0"),
        Example.of("Monday", [(0, 1, "DATE")], document="nw/x/00/x_0001 part 0"),
    ]


def test_a_folder_is_read_in_order_and_bare_documents_are_noted(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.v4_gold_conll").write_text(document(rows(("two", "*")), part="001"))
    (tmp_path / "a.v4_gold_conll").write_text(document(rows(("one", "(CARDINAL)"))))
    warnings = ReaderWarnings()
    assert [example.tokens for example in read_ontonotes(tmp_path, warnings=warnings)] == [("one",), ("two",)]
    assert str(warnings) == "1 × documents without any entity, perhaps never annotated (nw/x/00/x_0001 part 1)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (document("nw 0 0 word\n"), "line 2: must have more than 10 columns, got 4"),
        (document(rows(("a", "(ORG*"), ("b", "*"))), "line 3: the bracket of 'ORG' must close in its sentence"),
        (document(rows(("a", "*)"))), "line 2: a bracket closes that none has opened"),
        (document(rows(("[WORD]", "*"))), "line 2: must have words, got a skeleton"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, text, message):
    (tmp_path / "x.gold_conll").write_text(text)
    with pytest.raises(DataError, match=rf"x\.gold_conll {message}"):
        read_ontonotes(tmp_path / "x.gold_conll")
