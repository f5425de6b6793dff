"""The sample corpus: the same everywhere, full of what makes tagging hard, and not a matter of memory."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from spansieve.data.example import Example
from spansieve.data.sample import (
    CULTURES,
    DOMAINS,
    FAMILY_FIRST,
    HE,
    KEPT_FROM_TRAIN,
    LABELS,
    LINES,
    PARTS,
    PATTERNS,
    PRONOUNS,
    SHE,
    UNSEEN,
    WORDS,
    sample_corpus,
)

CORPUS = sample_corpus()
EVERYTHING = [example for split in CORPUS for example in split]


def names(examples: tuple[Example, ...]) -> list[tuple[str, str]]:
    return [(example.words(segment), segment.label) for example in examples for segment in example.segments]


def dictionary_f1(train: tuple[Example, ...], test: tuple[Example, ...]) -> float:
    """Of a tagger that knows every name of train with its most frequent label, and takes the longest first."""
    counts: dict[str, Counter] = defaultdict(Counter)
    for name, label in names(train):
        counts[name][label] += 1
    right = predicted = gold = 0
    for example in test:
        found, start = set(), 0
        while start < len(example):
            ends = range(min(len(example), start + 8), start, -1)
            end = next((end for end in ends if " ".join(example.tokens[start:end]) in counts), None)
            if end is not None:
                label = counts[" ".join(example.tokens[start:end])].most_common(1)[0][0]
                found.add((start, end, label))
            start = end or start + 1
        right += len(found & set(example.segments))
        predicted += len(found)
        gold += len(example.segments)
    return 2 * right / (predicted + gold)


# ---- The same everywhere ---------------------------------------------------------------------------------------------


def test_a_seed_gives_one_corpus_on_every_version():
    lines = "\n".join(f"{' '.join(e.tokens)}\t{[tuple(s) for s in e.segments]}" for e in EVERYTHING)
    assert hashlib.sha256(lines.encode()).hexdigest()[:16] == "806854a2978bf0c6"


def test_seeds_differ():
    assert sample_corpus(1) != CORPUS
    assert sample_corpus(1) == sample_corpus(1)


@pytest.mark.parametrize("seed", [None, "7", 1.5])
def test_a_seed_is_an_integer(seed):
    with pytest.raises(TypeError, match="seed must be an integer, got"):
        sample_corpus(seed)


def test_every_slot_has_a_list():
    assert set(PRONOUNS) == {"{she}", "{her}", "{herself}"}
    leftovers = [token for example in EVERYTHING for token in example.tokens if set(token) & set("{}<>[]|")]
    assert not leftovers
    assert all(PARTS.values())
    assert all(WORDS.values())
    assert all(LINES.values())


# ---- What is in it ---------------------------------------------------------------------------------------------------


def test_how_much():
    assert [len(split) for split in CORPUS] == [4000, 600, 600]
    assert len({example.tokens for example in EVERYTHING}) == len(EVERYTHING)
    assert not any(example.has_overlaps() for example in EVERYTHING)


@pytest.mark.parametrize("split", range(3))
def test_every_label_often(split):
    counts = Counter(label for _, label in names(CORPUS[split]))
    assert set(counts) == set(LABELS)
    assert min(counts.values()) > 0.1 * len(CORPUS[split])


def test_widths_and_lengths():
    widths = Counter(segment.width for example in EVERYTHING for segment in example.segments)
    assert set(widths) == set(range(1, 8))
    lengths = [len(example) for example in EVERYTHING]
    assert min(lengths) == 1
    assert max(lengths) > 40
    assert 14 < sum(lengths) / len(lengths) < 18


def test_sentences_without_entities():
    empty = [example for example in EVERYTHING if not example.segments]
    assert 0.08 < len(empty) / len(EVERYTHING) < 0.2
    title_case = [e for e in empty if len(e) > 4 and all(token[0].isupper() for token in e.tokens)]
    assert len(title_case) > 20


def test_neighbours_of_one_label_and_of_two():
    pairs = [pair for example in EVERYTHING for pair in pairwise(example.segments)]
    touching = [(before.label, after.label) for before, after in pairs if before.end == after.start]
    assert len(touching) > 100
    assert ("PER", "PER") in touching
    assert len(set(touching)) > 4


def test_lower_case_and_upper_case_names():
    all_names = [name for name, _ in names(EVERYTHING)]
    assert sum(name.islower() for name in all_names) > 50
    assert sum(name.isupper() and " " in name for name in all_names) > 20


def test_pronouns_agree():
    assert set(FAMILY_FIRST) < set(CULTURES)
    for culture in CULTURES:
        assert len(PARTS[f"{culture}_first"]) % 2 == 0
    assert not SHE & HE
    checked = 0
    for example in EVERYTHING:
        people = [example.words(segment).split()[0] for segment in example.segments if segment.label == "PER"]
        if len(people) == 1 and people[0] in SHE | HE:
            checked += 1
            assert not {pair[people[0] in HE] for pair in PRONOUNS.values()} & set(example.tokens)
    assert checked > 500


# ---- Not a matter of memory, but not a lottery -----------------------------------------------------------------------


@pytest.mark.parametrize("split", [1, 2])
def test_half_of_the_names_are_new(split):
    train = {name for name, _ in names(CORPUS.train)}
    held_out = {name for name, _ in names(CORPUS[split])}
    assert 0.4 < len(held_out - train) / len(held_out) < 0.6


def test_train_has_none_of_the_names_kept_from_it():
    tokens = {token for name, _ in names(CORPUS.train) for token in name.split()}
    assert not tokens & {name for name in KEPT_FROM_TRAIN if " " not in name}
    tokens = {token for name, _ in names(CORPUS.test) for token in name.split()}
    assert tokens & KEPT_FROM_TRAIN


def test_one_name_is_many_things():
    labels = defaultdict(set)
    for name, label in names(EVERYTHING):
        labels[name].add(label)
    assert {"PER", "LOC", "ORG"} <= labels["Jordan"]
    of_many = {name for name in labels if len(labels[name]) > 1}
    mentions = [name for name, _ in names(CORPUS.test)]
    assert sum(name in of_many for name in mentions) > 0.1 * len(mentions)


def test_some_of_what_test_says_is_not_in_train():
    counts = [sum("parrot" in example.tokens for example in split) for split in CORPUS]
    assert counts[0] == 0
    assert counts[1] + counts[2] > 0


def test_a_dictionary_is_not_enough():
    assert dictionary_f1(CORPUS.train, CORPUS.test) < 0.65
    assert dictionary_f1(CORPUS.train, CORPUS.train) < 0.95


def test_there_is_much_to_say():
    assert sum(len(domain) for domain in DOMAINS) > 150
    assert len({clause for domain in DOMAINS for clause in domain}) == sum(len(domain) for domain in DOMAINS)
    assert {kind.split(".")[0] for kind in PATTERNS} == set(LABELS)


# ---- What to try a model on ------------------------------------------------------------------------------------------


def test_unseen_sentences():
    assert len(set(UNSEEN)) == 6
    assert not {tuple(text.split()) for text in UNSEEN} & {example.tokens for example in EVERYTHING}
    assert UNSEEN[1].split().count("Jordan") == 3  # a company, a person and a country
