"""WebAnno TSV 3."""

from __future__ import annotations

import pytest

from spansieve.data.example import DataError, ReaderWarnings
from spansieve.data.formats import format_of, read_examples

HEADER = """#FORMAT=WebAnno TSV 3.2
#T_SP=webanno.custom.Topic|kind
#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value
#T_RL=webanno.custom.Link|type|BT_webanno.custom.Topic


"""
BODY = """#Text=👍 Bank of China-based \\_x\\_
1-1\t0-2\t👍\t_\t_\t_\t_\t_\t
1-2\t3-7\tBank\tmoney\tQ1[1]\tORG[1]\t_\t_\t
1-3\t8-10\tof\t_\tQ1[1]\tORG[1]\t_\t_\t
1-4\t11-22\tChina-based\t_\tQ1[1]\tORG[1]\t_\t_\t
1-4.1\t11-16\tChina\t_\tQ2\tLOC\t_\t_\t
1-5\t23-26\t\\_x\\_\t_\t*[2]|*[3]\tA\\|B[2]|*[3]\t_\t_\t

#Text=And more
2-1\t27-30\tAnd\t_\t*[2]\tA\\|B[2]\t_\t_\t
2-2\t31-35\tmore\t_\t_\t_\t_\t_\t
"""


def write(tmp_path, body=BODY, header=HEADER):
    path = tmp_path / "doc.tsv"
    path.write_text(header + body, encoding="utf-8")
    return path


def test_the_layer_of_named_entities_is_read(tmp_path):
    path = write(tmp_path)
    assert format_of(path) == "webanno"
    warnings = ReaderWarnings()
    first, second = read_examples(path, warnings=warnings, feature="value")
    assert first.tokens == ("👍", "Bank", "of", "China", "-based", "_x_")
    assert {(first.words(s), s.label) for s in first.segments} == {
        ("Bank of China-based", "ORG"), ("China", "LOC"), ("_x_", "A|B"), ("_x_", "ENTITY")
    }  # fmt: skip
    assert second.segments == ((0, 1, "A|B"),)
    assert first.document == "doc"
    assert warnings.counts["entities over the end of a sentence read as one in each"] == 1


def test_a_folder(tmp_path):
    write(tmp_path)
    (tmp_path / "warnings.txt").write_text("x")
    assert format_of(tmp_path) == "webanno"
    assert len(read_examples(tmp_path)) == 2


def test_another_layer(tmp_path):
    first, _ = read_examples(write(tmp_path), layer="Topic")
    assert first.segments == ((1, 2, "money"),)
    with pytest.raises(
        DataError, match=r"must have a layer of spans named like Place\|None, it has webanno\.custom\.Topic\|kind"
    ):
        read_examples(write(tmp_path), layer="Place")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("#Text=a\n1-1\t0-1\ta\n", "line 8: must have at least 5 columns, got 3"),
        ("#Text=a\n1-1\tx-1\ta\t_\t_\t_\t_\n", "line 8: must have characters like 0-9 in its second column, got 'x-1'"),
        ("#Text=a\n1-1\t0-1\tb\t_\t_\t_\t_\n", "line 8: token 'b' must stand in its sentence's #Text, got 'a'"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, body, message):
    with pytest.raises(DataError, match=message):
        read_examples(write(tmp_path, body))
