"""The page on word vectors, with work of no size."""

from __future__ import annotations

from spansieve.data.formats import write_examples
from tests.benchmarks.small_corpus import FLAGS, SPLITS
from tests.benchmarks.terminal import terminal as terminal


def test_each_file_is_trained_with_once(terminal, tmp_path):
    (tmp_path / "data" / "wnut17").mkdir(parents=True)
    for name, examples in SPLITS._asdict().items():
        write_examples(examples, tmp_path / "data" / "wnut17" / f"{name}.jsonl")
    words = sorted({token for example in SPLITS.train for token in example.tokens})
    (tmp_path / "words.txt").write_text("".join(f"{word} {i} 1\n" for i, word in enumerate(words)), encoding="utf-8")
    command = ["vectors", tmp_path / "data", "--vectors", tmp_path / "words.txt", "--folder", tmp_path / "r"]
    command += ["--corpus", "wnut17", "--seed", "3", "--out", tmp_path, *FLAGS]
    answer = terminal(*command)
    assert answer.code == 0, answer.err
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("r/wnut17/*/3/model/model.safetensors")}
    assert {path.parts[-4] for path in made} == {"none", "words.txt"}
    page = (tmp_path / "word_vectors_cpu.md").read_text()
    assert "| wnut17 | none |" in page
    assert "| wnut17 | words.txt |" in page
    assert (
        f"wnut17: {len(words)} vectors of 2 dimensions, words.txt; there is one for 100.0% of the training words"
        in page
    )
    assert terminal(*command).code == 0
    assert made == {path: path.stat().st_mtime_ns for path in made}
