"""Damaged files of every format that is read: valid ones, changed by a seed.

    for name, format, content in damaged_files(seed=0, count=100):
        path = write_case(folder, name, content)     # with the other file of its pair, where the format has two
        read_examples(path, format)                  # examples, or a DataError that names the file

What is damaged may still be valid: a changed letter is another text.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from spansieve.data.example import Example
from spansieve.data.formats import FORMATS, write_examples

TEXT = "Ada Lovelace met Bob in New York. They left AT&T."
EXAMPLES = [
    Example.of("Ada Lovelace met Bob", [(0, 2, "PER"), (3, 4, "PER")], document="a"),
    Example.of("in New York .", [(1, 3, "LOC")], document="b"),
]
SPANS = [(0, 12, "PER"), (17, 20, "PER"), (24, 32, "LOC")]
_REGIONS = [{"value": {"start": s, "end": e, "text": TEXT[s:e], "labels": [label]}} for s, e, label in SPANS]
_TASKS = [
    {"id": i, "data": {"text": TEXT, "doc": "a"}, "annotations": [{"completed_by": who, "result": _REGIONS}]}
    for i, who in enumerate((1, {"email": "b@c"}))
]
_WORDS = [("Ada", "(PERSON*"), ("Lovelace", "*)"), ("met", "*"), ("Bob", "(PERSON)")]
_ONTONOTES = "".join(f"d 0 {i} {word} NNP * - - - - {name} -\n" for i, (word, name) in enumerate(_WORDS))
_CHARACTERS = "".join(
    f'<entity ID="E{s}" TYPE="{label}"><entity_mention ID="M{s}" TYPE="NAM">\n<extent><charseq START="{s}" '
    f'END="{e - 1}">{TEXT[s:e]}</charseq></extent>\n<head><charseq START="{s}" END="{e - 1}">{TEXT[s:e]}'
    "</charseq></head></entity_mention></entity>\n"
    for s, e, label in SPANS
)
_TOKENS = [{"text": m[0], "start": m.start(), "end": m.end(), "id": i} for i, m in enumerate(re.finditer(r"\S+", TEXT))]
_PRODIGY = {
    "text": TEXT,
    "tokens": _TOKENS,
    "spans": [{"start": s, "end": e, "label": label} for s, e, label in SPANS],
    "answer": "accept",
    "meta": {"doc": "a"},
}
_OFFSETS = [{"id": 1, "start_offset": s, "end_offset": e, "label": label} for s, e, label in SPANS]
_MINIMAL = [{"id": 1, "text": TEXT, "label": [region["value"] for region in _REGIONS]}]
_CELL = '"[{""start"": 0, ""end"": 3, ""labels"": [""PER""]}]"'
_COLUMNS = "# global.columns = ID FORM NER:TAG\n# newdoc id = x\n1\tAda\tB-PER\n2\tmet\tO\n\n1\tBob\tB-PER\n"
_TAGGED = [{"orth": token, "ner": tag} for token, tag in (("Ada", "B-PER"), ("Lovelace", "L-PER"), ("met", "O"))]
_DOCUMENTS = [{"id": 0, "paragraphs": [{"raw": TEXT, "sentences": [{"tokens": _TAGGED}]}]}]

PAIRS = {  # formats of two files
    "brat": {
        "d.txt": TEXT,
        "d.ann": "".join(f"T{i}\t{label} {s} {e}\t{TEXT[s:e]}\n" for i, (s, e, label) in enumerate(SPANS)),
    },
    "ace": {
        "d.sgm": f"<DOC>\n<TEXT>{TEXT.replace('&', '&amp;')}</TEXT></DOC>".replace("<DOC>\n", "<DOC>"),
        "d.apf.xml": '<?xml version="1.0"?>\n<!DOCTYPE source_file SYSTEM "apf.v5.1.1.dtd">\n<source_file><document '
        f'DOCID="d">\n{_CHARACTERS}</document></source_file>\n',
    },
}


def _lines(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@cache
def valid_files() -> tuple[tuple[str, str, bytes], ...]:
    """Name, format and content of valid files: at least one of each format."""
    texts = [
        ("a.jsonl", "jsonl", _lines({"text": TEXT, "entities": [[*SPANS[0]]], "unknown": [[0, 3]], "doc": "a"})),
        ("b.jsonl", "jsonl", _lines({"tokens": ["Ada", "met"], "tags": ["B-PER", "O"]}, {"words": ["a"], "ner": []})),
        ("c.jsonl", "jsonl", _lines({"tokens": ["Ada"], "text": "Ada.", "offsets": [[0, 3]], "unknown": [[0, 1]]})),
        ("a.gold_conll", "ontonotes", f"#begin document (nw/a); part 000\n{_ONTONOTES}\n#end document\n"),
        ("b.prodigy.jsonl", "prodigy", _lines(_PRODIGY, _PRODIGY | {"_annotator_id": "x"})),
        ("b.doccano.jsonl", "doccano", _lines({"id": 1, "text": TEXT, "entities": _OFFSETS, "relations": []})),
        ("b.studio.json", "label-studio", json.dumps(_TASKS, indent=1)),
        ("c.studio.json", "label-studio", json.dumps(_MINIMAL)),
        ("b.csv", "csv", "sentence,token,tag\n1,Ada,B-PER\n,met,O\n2,Bob,B-PER\n"),
        ("c.csv", "csv", "text,start,end,label\n" + "".join(f'"{TEXT}",{s},{e},{label}\n' for s, e, label in SPANS)),
        ("d.csv", "csv", f"id,text,label,annotation_id\n1,Ada,{_CELL},5\n"),
        ("a.pubtator.txt", "pubtator", "1|t|Ada met\n1|a|Bob in Rome\n1\t0\t3\tAda\tPER\n1\t8\t11\tBob\tPER\n"),
        (
            "a.webanno.tsv",
            "webanno",
            "#FORMAT=WebAnno TSV 3.2\n#T_SP=de.NamedEntity|identifier|value\n\n\n#Text=Ada Lovelace met\n"
            "1-1\t0-3\tAda\t*[1]\tPER[1]\n1-2\t4-12\tLovelace\t*[1]\tPER[1]\n1-2.1\t4-8\tLove\t_\tX\n1-3\t13-16\tmet\t_\t_\n",
        ),
        ("a.iob", "iob-lines", "Ada|NNP|B-PER met|VBD|O\nBob|NNP|B-PER\n"),
        ("a.spacy.json", "spacy-json", json.dumps(_DOCUMENTS)),
        ("d.conll", "conll", _COLUMNS),
    ]  # fmt: skip
    texts += [(name, format, content) for format, pair in PAIRS.items() for name, content in pair.items()]
    files = [(name, format, content.encode()) for name, format, content in texts]
    with tempfile.TemporaryDirectory() as folder:
        for format in FORMATS.values():
            if format.writer and format.name != "brat":
                path = Path(folder) / f"w.{format.name}{(format.suffixes or ('.jsonl',))[0]}"
                write_examples(EXAMPLES, path, format.name)
                files.append((path.name, format.name, path.read_bytes()))
    return tuple(files)


def damaged_files(seed: int, count: int) -> Iterator[tuple[str, str, bytes]]:
    """Name, format and content of damaged files; the same for the same seed."""
    rng = random.Random(seed)
    files = valid_files()
    for number in range(count):
        name, format, content = files[number % len(files)]
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            content = rng.choice(_damages_of(name))(rng, content)
        if rng.random() < 0.06 and not name.endswith((".spacy", ".parquet")):
            name, content = f"{name}.gz", gzip.compress(content, mtime=0)
            content = rng.choice((_cut, _flipped, _removed, lambda _, same: same))(rng, content)
        yield f"{number}-{name}" if format not in PAIRS else name, format, content


def write_case(folder: Path, name: str, content: bytes) -> Path:
    """Write a damaged file, and the good other one of its pair."""
    for pair in PAIRS.values():
        if name.removesuffix(".gz") in pair:
            for other, good in pair.items():
                if other != name.removesuffix(".gz"):
                    (folder / other).write_text(good)
    (folder / name).write_bytes(content)
    return folder / name


# ---- Bytes -----------------------------------------------------------------------------------------------------------

_Damage = Callable[[random.Random, bytes], bytes]
_SPLICES = (
    b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xc3", b"\r", b"\r\n", b"\n\n", b"\t", b"\t\t", b"\x1a", b'"',
    b"\\", b"\\ud800", "\u2028\u0085".encode(), "²".encode(), "٣".encode(), b"|", b"-", b"#", b"(", b")", b"[", b"{",
    b"]", b"}", b",", b"&x;", b"<", b"<TEXT>", b"</TEXT>", b"\n-DOCSTART-\n", b"\nT", b"\n1-1\t", b" " * 1_000,
    b"(" * 5_000, b"[" * 100_000, b'{"a":' * 10_000, b"NaN", b"-Infinity", b"1e999", b"9" * 5_000, b"<a>" * 20_000,
)  # fmt: skip


def _damages_of(name: str) -> list[_Damage]:
    if name.endswith((".spacy", ".parquet")):
        return [_cut, _flipped, _removed, _repeated, _spliced]
    damages: list[_Damage] = [
        _cut,
        _flipped,
        _removed,
        _repeated,
        _spliced,
        _spliced,
        _renumbered,
        _renumbered,
        _refielded,
    ]
    if name.endswith((".json", ".jsonl")):
        damages += [_retyped] * 6
    if name.endswith(".xml"):
        damages += [_with_entities] * 2
    return [*damages, _other_encoding]


def _place(rng: random.Random, content: bytes) -> int:
    return rng.randrange(len(content) + 1)


def _cut(rng: random.Random, content: bytes) -> bytes:
    return content[: _place(rng, content)]


def _flipped(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 8))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _removed(rng: random.Random, content: bytes) -> bytes:
    start = _place(rng, content)
    return content[:start] + content[start + rng.choice((1, 2, 20)) :]


def _repeated(rng: random.Random, content: bytes) -> bytes:
    start, end = sorted((_place(rng, content), _place(rng, content)))
    return content[:end] + content[start:]


def _spliced(rng: random.Random, content: bytes) -> bytes:
    place = _place(rng, content)
    return content[:place] + rng.choice(_SPLICES) + content[place:]


def _other_encoding(rng: random.Random, content: bytes) -> bytes:
    return content.decode(errors="replace").encode(
        rng.choice(("utf-16", "utf-16-le", "utf-32", "latin-1", "cp500")), "replace"
    )


# ---- Numbers, fields and values --------------------------------------------------------------------------------------

_NUMBERS = (
    "", "-1", "0", "1", "50", "51", "2.5", "1e3", "9" * 5_000, "-" + "9" * 5_000, str(2**63), str(2**31), "true",
    "null", "NaN", "Infinity", "²", "٣", "+5", "0x1", "1_0", " 3", '"3"', "[]", "{}", "a",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    [], {}, 0, -1, 7, 2**70, 1.5, True, False, None, "", "x", "O", "\ud800", "\0", [[]], [None], [{}], [0], ["a", 1],
    [[0, 3]], [[3, 0, "A"]], [["0", "3", "A"]], [[0, 3, ""]], [[0, 3, 5]], {"start": {}}, [True, False], "a" * 5_000,
    [[True, 3, "A"]], [[0, 10**9, "A"]], [[-5, 3, "A"]], {"text": None}, float("nan"),
)  # fmt: skip


def _renumbered(rng: random.Random, content: bytes) -> bytes:
    numbers = list(re.finditer(rb"\d+", content))
    if not numbers:
        return content
    number = rng.choice(numbers)
    return content[: number.start()] + rng.choice(_NUMBERS).encode() + content[number.end() :]


def _refielded(rng: random.Random, content: bytes) -> bytes:
    """Remove, empty or repeat one of the fields between tabs, blanks, commas, bars and line ends."""
    fields = re.split(rb"([\t ,|\n])", content)
    field = rng.randrange(len(fields))
    fields[field] = rng.choice((b"", fields[field] * 2, b"O", b"B-", b"I-PER", fields[rng.randrange(len(fields))]))
    return b"".join(fields)


def _retyped(rng: random.Random, content: bytes) -> bytes:
    """Put a value of another type anywhere into JSON, drop one, or give a key twice."""
    try:
        text = content.decode()
        is_list = text.lstrip().startswith("[")
        records = json.loads(text) if is_list else [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        return content
    places = list(_places(records))
    if not places:
        return content
    holder, key = rng.choice(places)
    action = rng.random()
    if action < 0.15 and (isinstance(holder, dict) or len(holder) > 1):
        del holder[key]
    else:
        holder[key] = json.loads(json.dumps(rng.choice(_VALUES)))
    written = json.dumps(records) if is_list else _lines(*records)
    if action > 0.92:
        written = written.replace('"text":', '"text": 1, "text":', 1).replace('"tokens":', '"tokens": 1, "tokens":', 1)
    return written.encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every key and index within a value, with what holds it."""
    if isinstance(value, (list, dict)):
        for key in range(len(value)) if isinstance(value, list) else list(value):
            yield value, key
            yield from _places(value[key])


def _with_entities(rng: random.Random, content: bytes) -> bytes:
    """Declare entities: ones that grow without end, a large one used often, files of this machine, another encoding."""
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))
    inside, used = rng.choice(
        (
            (f'<!ENTITY l0 "ha">{laughs}', "&l11;"),
            (f'<!ENTITY l0 "{"ha" * 20_000}">', "&l0;" * 20_000),
            ('<!ENTITY l0 SYSTEM "file:///etc/passwd">', "&l0;"),
            ('<!ENTITY % l0 SYSTEM "http://127.0.0.1:9/x"> %l0;', ""),
            ("", "&undeclared;"),
        )
    )
    content = re.sub(rb'SYSTEM "apf[^>]*>', f"[{inside}]>".encode(), content, count=1)
    content = content.replace(b"Lovelace", f"Lovelace{used}".encode())
    if rng.random() < 0.2:
        content = content.replace(
            b'version="1.0"', f'version="1.0" encoding="{rng.choice(("x", "utf-16", "gbk"))}"'.encode()
        )
    return content
