"""One version everywhere, and minimum versions that are those which `make test-oldest` runs on."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import spansieve

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("plots", "spacy", "datasets", "onnx", "serve", "ray")  # what the tests need of them


def released() -> list[tuple[str, str]]:
    """The versions that the changelog tells of, each with its date."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$", changelog, flags=re.MULTILINE)


def test_the_changelog_tells_of_this_version():
    assert released()[0][0] == spansieve.__version__


def test_the_citation_names_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    named = dict(re.findall(r"^(version|date-released): (\S+)$", citation, flags=re.MULTILINE))
    assert (named["version"], named["date-released"]) == released()[0]


def test_the_oldest_constraints_are_the_declared_minimum_versions():
    required = [
        *PROJECT["dependencies"],
        *(line for extra in EXTRAS for line in PROJECT["optional-dependencies"][extra]),
    ]
    minimum = {re.sub(r"\[.+?\]", "", line).replace(">=", "==") for line in required}
    lines = (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(minimum, key=str.lower) == lines[1:]


def test_the_tests_take_in_these_extras():
    (taken,) = (line for line in PROJECT["optional-dependencies"]["dev"] if line.startswith("spansieve["))
    assert taken == f"spansieve[{','.join(EXTRAS)}]"
