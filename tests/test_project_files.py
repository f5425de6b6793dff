"""The files that GitHub reads agree with pyproject.toml, the Makefile and `.ci/run`."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
TEST, OLDEST = WORKFLOW["jobs"]["test"], WORKFLOW["jobs"]["oldest"]
MINIMUM = PROJECT["requires-python"].removeprefix(">=")


def made(script: str) -> list[str]:
    """Return the targets that a script makes, in order."""
    return re.findall(r"^make ([\w-]+)", script, flags=re.MULTILINE)


def made_by(job: dict) -> list[str]:
    return [target for step in job["steps"] for target in made(step.get("run", ""))]


def python_of(job: dict) -> str:
    (version,) = (step["with"]["python-version"] for step in job["steps"] if "setup-python" in step.get("uses", ""))
    return version


def test_the_workflow_makes_what_ci_run_makes():
    targets = made((ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert targets == ["test", "test-emulated-cuda", "test-browser"]
    assert made_by(TEST) == targets


def test_the_workflow_starts_at_the_oldest_python():
    versions = [tuple(map(int, version.split("."))) for version in TEST["strategy"]["matrix"]["python"]]
    first = tuple(map(int, MINIMUM.split(".")))
    assert versions == [(first[0], minor) for minor in range(first[1], versions[-1][1] + 1)]
    assert python_of(TEST) == "${{ matrix.python }}"


def test_the_oldest_versions_run_on_the_oldest_python():
    assert made_by(OLDEST) == ["test-oldest"]
    assert python_of(OLDEST) == MINIMUM


def test_the_workflow_may_only_read_and_must_end():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert all("permissions" not in job and job["timeout-minutes"] <= 60 for job in WORKFLOW["jobs"].values())


@pytest.mark.parametrize("path", [".github/pull_request_template.md", ".github/workflows/ci.yml", ".ci/run"])
def test_targets_that_are_named_exist(path):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = re.findall(r"(?:`|: |^)make ([\w-]+)", (ROOT / path).read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert named
    assert set(named) <= set(targets)


def test_what_is_pinned_on_the_oldest_python_can_be_installed_there():
    """Looks at what is installed here: other pins are of extras that no test needs."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    oldest = {"python_version": MINIMUM, "python_full_version": f"{MINIMUM}.99"}
    pinned = [pin for pin in pins if pin.marker is None or pin.marker.evaluate(oldest)]
    versions = {pin.name: _required_python(pin) for pin in pinned}
    assert any(versions.values())
    assert [name for name, required in versions.items() if f"{MINIMUM}.99" not in SpecifierSet(required)] == []


def _required_python(pin: Requirement) -> str:
    """Return what the pinned version says of Python; nothing where another one is installed, or none."""
    try:
        found = distribution(pin.name)
    except PackageNotFoundError:
        return ""
    return (found.metadata["Requires-Python"] or "") if found.version in pin.specifier else ""


def test_every_system_and_python_is_tested_and_the_oldest_versions():
    systems = yaml.safe_load((ROOT / ".github" / "workflows" / "systems.yml").read_text(encoding="utf-8"))
    assert systems["jobs"]["test"]["strategy"]["matrix"]["os"] == ["windows-latest", "macos-latest"]
    assert WORKFLOW["jobs"]["test"]["strategy"]["matrix"]["python"] == ["3.10", "3.11", "3.12", "3.13"]
    assert {"run": "make test-oldest"} in WORKFLOW["jobs"]["oldest"]["steps"]
    paths = [word for step in systems["jobs"]["test"]["steps"] for word in step.get("run", "").split()]
    tests = [path for path in paths if path.startswith("tests/")]
    assert len(tests) > 5
    assert all((ROOT / path).exists() for path in tests)
