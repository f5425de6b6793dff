"""Which way imports point, how long a module may be, and what none is called."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MODULES = sorted((SOURCE / "spansieve").rglob("*.py"))
BENCHMARKS = sorted((SOURCE.parent / "benchmarks").rglob("*.py"))  # may import all of spansieve
LAYERS = [
    {"_lazy"},
    {"segments"},
    {"config"},
    {"crf"},
    {"data"},
    {"evaluation"},
    {"decoding"},
    {"decode"},
    {"nn"},
    {"persistence"},
    {"models"},
    {"training"},
    {"prediction"},
    {"serving", "integrations"},
    {"cli"},
]
LEVEL = {name: level for level, layer in enumerate(LAYERS) for name in layer}
# What the package's own two files may import.
OWN_FILES = {"__init__": {"_lazy", "segments", "decoding", "integrations"}, "__main__": {"cli"}}
OUTSIDE = {"benchmarks", "tests", "examples"}  # what the wheel does not hold
CORE_NEEDS = {"torch", "numpy", "numba", "llvmlite", "triton"}
MOST_LINES = 400
MAX_MODULES = 188
MAX_VERBAL = 8  # names that end in -ing
BANNED = {"utils", "util", "helpers", "helper", "common"}


def module_name(path: Path) -> str:
    home = SOURCE if path.is_relative_to(SOURCE) else SOURCE.parent
    return ".".join(path.relative_to(home).with_suffix("").parts)


def imports(source: str, module: str) -> set[str]:
    """Every module that is imported, wherever in the file, relative imports and `import_module("…")` included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = ".".join(module.split(".")[: -node.level]) if node.level else ""
            base = ".".join(filter(None, (home, node.module)))
            found |= {f"{base}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and _is_import_module(node.func):
            found |= {argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)}
    return found


def _is_import_module(function: ast.expr) -> bool:
    return "import_module" in (getattr(function, "id", None), getattr(function, "attr", None))


def broken_layers(source: str, module: str) -> set[str]:
    """What the module imports of ours although it stands to its right, or outside of the package."""
    own = module.split(".")[1]
    wrong = set()
    for name in imports(source, module):
        package, _, rest = name.partition(".")
        if package in OUTSIDE:
            wrong.add(name)
        if package != "spansieve" or not rest:
            continue
        target = rest.split(".")[0]
        if target == "__version__":
            continue
        is_known = target in LEVEL
        is_fine = target in OWN_FILES[own] if own in OWN_FILES else is_known and LEVEL[target] <= LEVEL[own]
        # `from spansieve import Segment` takes a name that the package itself offers.
        is_public = not is_known and not (SOURCE / "spansieve" / target).exists() and target[0].isupper()
        if not is_fine and not is_public:
            wrong.add(name)
    return wrong


def strangers(source: str, module: str) -> set[str]:
    """What the core imports that it does not need."""
    packages = {name.split(".")[0] for name in imports(source, module)}
    return packages - sys.stdlib_module_names - CORE_NEEDS - {"spansieve"}


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_imports_point_to_the_left(path):
    module = module_name(path)
    assert module.split(".")[1] in LEVEL.keys() | OWN_FILES.keys(), "a new package needs its place in LAYERS"
    assert not broken_layers(path.read_text(encoding="utf-8"), module)


CORE = [path for path in MODULES if "crf" in path.relative_to(SOURCE).parts]


@pytest.mark.parametrize("path", CORE, ids=module_name)
def test_the_core_stands_alone(path):
    assert not strangers(path.read_text(encoding="utf-8"), module_name(path))


@pytest.mark.parametrize("path", MODULES + BENCHMARKS, ids=module_name)
def test_no_module_is_long_or_named_after_nothing(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    assert not BANNED & set(module_name(path).split("."))


def test_a_file_name_occurs_once():
    """A head may have the name of its distribution, and there is one __init__ per package and one file per format."""
    names = [
        path.name for path in MODULES if path.name != "__init__.py" and path.parent.name not in ("models", "formats")
    ]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_modules_are_named_by_nouns():
    assert len(MODULES) <= MAX_MODULES
    assert len([path for path in MODULES if path.stem.endswith("ing")]) <= MAX_VERBAL


def test_plots_alone_import_matplotlib():
    importers = [
        p.name for p in MODULES if any(n.startswith("matplotlib") for n in imports(p.read_text("utf-8"), "x.y"))
    ]
    assert importers == ["plots.py"]


# ---- That these tests can fail ---------------------------------------------------------------------------------------


def test_there_is_something_to_look_at():
    assert len(CORE) > 10
    assert len(BENCHMARKS) > 10


@pytest.mark.parametrize(
    "source",
    [
        "import spansieve.cli",
        "from spansieve.models import filtered",
        "from spansieve import models",
        "def f():\n    from spansieve.nn.encoder import Encoder",
        "if TYPE_CHECKING:\n    from spansieve.data import Example",
        "from ..training import loop",
        "import_module('spansieve.serving.http')",
        "importlib.import_module('spansieve.serving')",
        "from spansieve.unheard_of import thing",
        "import benchmarks",
        "def f():\n    from benchmarks.timings import provenance",
    ],
)
def test_an_import_to_the_right_is_seen(source):
    assert broken_layers(source, "spansieve.crf.candidates")


@pytest.mark.parametrize(
    "source",
    [
        "from spansieve import Segment",
        "from spansieve.segments import Segment",
        "from spansieve.crf.kernels import cpu",
        "from .kernels import reference",
        "from . import candidates",
        "import spansieve",
        "import torch",
    ],
)
def test_an_import_to_the_left_is_fine(source):
    assert not broken_layers(source, "spansieve.crf.candidates")


def test_the_packages_own_files():
    assert not broken_layers("from spansieve.segments import Segment", "spansieve.__init__")
    assert broken_layers("from spansieve.crf import LinearChain", "spansieve.__init__")
    assert not broken_layers("from spansieve.cli import main", "spansieve.__main__")


def test_a_stranger_in_the_core_is_seen():
    assert strangers("def f():\n    import transformers.models", "spansieve.crf.candidates") == {"transformers"}
    assert not strangers("import math\nimport torch.nn\nfrom numba import njit", "spansieve.crf.candidates")
