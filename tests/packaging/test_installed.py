"""The wheel, installed with what it needs into an empty environment, does all of its work there: also for another user,
without a network or a compiler, where neither the package nor the home can be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from spansieve.data.formats import write_examples
from tests.packaging.test_dist import ROOT
from tests.packaging.test_dist import built as built
from tests.training import runs

pytestmark = pytest.mark.slow
NOBODY = 65534
SETTINGS = runs.SMALL | {name.replace("__", "."): value for name, value in runs.STILL.items()} | {"training.epochs": 12}
# Run by the environment's Python, which has nothing of this repository.
WALK = r"""
import json, os, re, shutil, signal, socket, subprocess, sys, urllib.request
from pathlib import Path
import spansieve

TEXT = "Ada lives in New York ."
is_bare, settings = sys.argv[1] == "bare", sys.argv[2:]
package = Path(spansieve.__file__).parent
assert package.is_relative_to(sys.prefix), package
for name in ("tests", "benchmarks", "matplotlib"):
    assert subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True).returncode, name
if is_bare:
    for folder in (package, package.parent, Path.home()):
        assert not os.access(folder, os.W_OK), f"{folder} can be written"
    assert not any(map(shutil.which, ("cc", "gcc", "clang", "c++"))), os.environ["PATH"]
    try:
        socket.create_connection(("192.0.2.1", 80), 2)
    except OSError as error:
        assert "unreachable" in str(error), error
    else:
        raise AssertionError("there is a network")

command = [sys.executable, "-m", "spansieve"]
def spansieve_(*arguments, text=None):
    done = subprocess.run([*command, *arguments], input=text, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout

def entities(answer):
    return [(entity["start"], entity["end"], entity["label"]) for entity in json.loads(answer)["entities"]]

wanted = [(0, 3, "PER"), (13, 21, "LOC")]
trained = spansieve_("train", "train.conll", "train.conll", "--output", "run", "--set=run.cpu=true", *settings)
assert "no curves were drawn" in trained, trained
assert entities(spansieve_("predict", "run/model", TEXT)) == wanted
spansieve_("export", "run/model", "export")
assert entities(spansieve_("predict", "export", TEXT)) == wanted
assert spansieve_("redact", "run/model", text=TEXT + "\n") == "[PER] lives in [LOC] .\n"
server = subprocess.Popen([*command, "serve", "export", "--port", "0"], stderr=subprocess.PIPE, encoding="utf-8")
try:
    address = next(found[0] for line in server.stderr if (found := re.search(r"http://[\w.:]+", line)))
    body = json.dumps({"texts": [TEXT]}).encode()
    request = urllib.request.Request(f"{address}/predict", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        (result,) = json.load(answer)["results"]
    assert entities(json.dumps(result)) == wanted
    server.send_signal(signal.SIGTERM)
    for _ in server.stderr: pass
    assert server.wait(60) == 0
finally:
    server.kill()
print("all of it")
"""


class Installed(NamedTuple):
    python: Path
    folder: Path


def reachable_python() -> str:
    """A Python of this version that another user can start."""
    names = (os.path.realpath(sys.executable), f"/usr/bin/python3.{sys.version_info.minor}")
    for name in names:
        if Path(name).exists() and all(folder.stat().st_mode & 0o001 for folder in Path(name).parents):
            return name
    pytest.skip(f"needs a Python that another user can start, got {', '.join(names)}")


@pytest.fixture(scope="module")
def installed(built):
    folder = Path(tempfile.mkdtemp(prefix="spansieve-installed-"))  # pytest's own are for its user alone, and stay so
    folder.chmod(0o755)
    try:
        subprocess.run([reachable_python(), "-m", "venv", "--without-pip", folder / "venv"], check=True)
        python = folder / "venv" / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
        subprocess.run([*pip, "--constraint", ROOT / "constraints.txt", f"{built[0]}[onnx,serve]"], check=True)
        subprocess.run(["chmod", "-R", "a+rX,a-w", folder / "venv"], check=True)
        yield Installed(python, folder)
    finally:
        subprocess.run(["chmod", "-R", "u+w", folder], check=True)
        shutil.rmtree(folder)


def walk(installed: Installed, kind: str, prefix: list[str], environment: dict[str, str]) -> str:
    work = installed.folder / kind
    work.mkdir()
    write_examples(runs.TRAIN, work / "train.conll")
    if prefix and os.getuid() == 0:
        for path in (work, *work.iterdir()):
            os.chown(path, NOBODY, NOBODY)
    settings = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
    command = [*prefix, str(installed.python), "-c", WALK, kind, *settings]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_everything_works_where_it_was_installed(installed):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA"))}
    assert walk(installed, "plain", [], clean) == "all of it\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")
def test_everything_works_for_another_user_who_may_write_nothing_and_has_no_network(installed):
    if os.getuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv", "ip"))):
        pytest.skip("needs root, to become another user without a network")
    home = installed.folder / "home"
    home.mkdir(mode=0o555)
    become = f"ip link set lo up && exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups"
    # PATH is that of the environment alone, and so without a compiler.
    shell = f'{become} env PATH={installed.python.parent} "$@"'
    prefix = ["unshare", "-n", "sh", "-c", shell, "sh"]
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    assert walk(installed, "bare", prefix, environment) == "all of it\n"
