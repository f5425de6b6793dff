"""What every reader shares: gzip, UTF-8, line ends, and errors that name the line."""

from __future__ import annotations

import gzip

import pytest

from spansieve.data.example import DataError
from spansieve.data.formats import read_examples, write_examples
from spansieve.data.formats.files import files_in, read_lines, read_text, write_text

CONLL = "Ada\tB-PER\ncame\tO\n"


def test_a_gzip_file_is_read_like_any_other(tmp_path):
    path = tmp_path / "a.conll.gz"
    path.write_bytes(gzip.compress(CONLL.encode()))
    assert read_examples(path)[0].tokens == ("Ada", "came")
    renamed = tmp_path / "a.conll"
    renamed.write_bytes(path.read_bytes())
    assert read_examples(renamed) == read_examples(path)


def test_a_gzip_file_that_is_cut_short_is_told(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"tokens": ["a"], "entities": []}\n' * 99)[:-20])
    with pytest.raises(DataError, match=r"a\.jsonl\.gz must be a whole gzip file, got one that is cut short"):
        read_examples(path)


def test_bad_utf8_is_told_with_its_line(tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes(b"Ada\tB-PER\n\nJos\xe9\tB-PER\n")
    with pytest.raises(DataError, match=r"a\.conll line 3: must be UTF-8, got byte 0xe9"):
        read_examples(path)
    path.write_bytes(CONLL.encode("utf-16"))
    with pytest.raises(DataError, match="must be UTF-8, got UTF-16"):
        read_examples(path)


def test_byte_order_mark_and_crlf_are_no_part_of_the_text(tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes(b"\xef\xbb\xbf" + CONLL.replace("\n", "\r\n").encode())
    assert read_examples(path)[0].tokens == ("Ada", "came")
    assert read_examples(path)[0].segments == ((0, 1, "PER"),)


def test_only_line_feeds_end_lines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a\u2028b\x85c\nd", encoding="utf-8")
    assert list(read_lines(path)) == [(1, "a\u2028b\x85c"), (2, "d")]


def test_the_same_examples_give_the_same_bytes(tmp_path):
    first, second = tmp_path / "a.gz", tmp_path / "b.gz"
    write_text("word", first)
    write_text("word", second)
    assert first.read_bytes() == second.read_bytes()
    assert read_text(first) == "word"


def test_a_folder_without_the_files_is_told(tmp_path):
    with pytest.raises(DataError, match=r"must hold files that end in \.ann, got none"):
        files_in(tmp_path, ".ann")


def test_a_missing_file_and_an_unknown_format_are_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        read_examples(tmp_path / "none.conll")
    with pytest.raises(ValueError, match=r"format must be one of conll, jsonl.*, got 'xml'"):
        write_examples([], tmp_path / "a.conll", "xml")
    with pytest.raises(ValueError, match=r"name of a file to write must end in \.conll.*got"):
        write_examples([], tmp_path / "a.unheard")
    with pytest.raises(ValueError, match="can only be read; these can be written: conll"):
        write_examples([], tmp_path / "a", "ace")


def test_a_mistyped_option_is_told(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text(CONLL)
    with pytest.raises(
        ValueError, match=r"format conll takes token_column, tag_column, scheme, strict, got 'tagcolumn'"
    ):
        read_examples(path, tagcolumn=1)
