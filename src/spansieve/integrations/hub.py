"""Models on the Hugging Face Hub: loaded by their name there, and put there.

A folder is a folder: the network is asked for nothing where one is given.
"""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import Any

import torch

from spansieve.data.tokenizer import Tokenizer, tokens_of_text
from spansieve.decoding.prediction import Probability
from spansieve.models.storage import CARD, CONFIG, MODEL, checked_description, load_model
from spansieve.persistence.manifest import ModelError, check_names, read_object
from spansieve.prediction.predictor import CUDA_GRAPH_MEGABYTES, Predictor
from spansieve.prediction.promises import GUARANTEE, promise_for

SECONDS = 5.0  # that the Hub has for a sign of life: it retries for minutes where there is no network
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def load(
    source: str | Path,
    device: str | torch.device = "cpu",
    *,
    revision: str | None = None,
    tokenizer: Tokenizer = tokens_of_text,
    batch_tokens: int | None = None,
    probability: Probability = "given-candidates",
    guarantee: str | None = None,
    objective: str = "probability",
    cuda_graph_megabytes: float = CUDA_GRAPH_MEGABYTES,
) -> Predictor:
    """Load a model from a folder that `spansieve train` wrote, or from the Hub by its name, as `org/name`.

    `revision` is a branch, a tag or a commit of the Hub's. What was fetched once is not fetched again. No code of the
    model's is run, wherever it comes from. With a `guarantee` that is beside the model, such as miss=0.01, predictions
    are under that promise; the `objective` f1 predicts the set with the largest expected F1 in place of the most
    probable one.
    """
    folder = source
    if is_hub_name(source):
        folder = downloaded(str(source), revision)
    elif revision is not None:
        raise ValueError(f"revision must be left out for a folder, got {revision!r} for {source}")
    promise = None if guarantee is None else promise_for(MODEL.standing(Path(folder)), guarantee)
    tagger = load_model(folder, device)
    predictor = Predictor(tagger, tokenizer, batch_tokens, probability, cuda_graph_megabytes)
    return predictor.under(promise).with_objective(objective)


def is_hub_name(source: str | Path) -> bool:
    """True of `org/name`, unless there is a folder `org` here: what looks like a place on this machine is one."""
    if not isinstance(source, str) or not _NAME.fullmatch(source):
        return False
    return not Path(source.split("/")[0]).exists()


def downloaded(name: str, revision: str | None = None) -> Path:
    """The folder with a model of the Hub: of all that its repository holds, only the files of the model are fetched."""
    from huggingface_hub import hf_hub_download, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    options: Any = {"local_files_only": _network_error() is not None}  # what was fetched before is there without it
    try:
        config = Path(hf_hub_download(name, CONFIG, revision=revision, **options))
        files = read_object(config).get("files")
        if not isinstance(files, dict):
            raise ModelError(f"{name} holds no spansieve model: its {CONFIG} names no files")
        check_names(files, Path(name) / CONFIG)
        patterns = [glob.escape(file) for file in (CONFIG, CARD, GUARANTEE, *files)]
        # One commit for all of it, though the branch may move on meanwhile.
        return Path(snapshot_download(name, revision=config.parent.name, allow_patterns=patterns, **options))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise ModelError(f"{name} is no folder here, and could not be had from the Hub: {error}") from error


def push_to_hub(
    folder: str | Path, name: str, *, private: bool = False, revision: str | None = None, message: str | None = None
) -> str:
    """Put a model's folder into the repository `org/name`, which is made where there is none. Returns the address.

    Only the files of the model go there, its guarantee among them, and only if all of them are as they were written.
    Without a token or a network this is a `ModelError` within seconds.
    """
    from huggingface_hub import HfApi, get_token

    folder = Path(folder)
    files = [CONFIG, CARD, GUARANTEE, *checked_description(folder)["files"]]
    if not _NAME.fullmatch(name):
        raise ValueError(f"name must be org/name, as the Hub has it, got {name!r}")
    if get_token() is None:
        raise ModelError(f"{name} needs a token that may write there: run `hf auth login`, or set HF_TOKEN")
    if (offline := _network_error()) is not None:
        raise ModelError(f"{folder} could not be put on the Hub, which cannot be reached: {offline}") from offline
    api: Any = HfApi(library_name="spansieve")
    try:
        api.create_repo(name, private=private, exist_ok=True)
        done = api.upload_folder(
            repo_id=name,
            folder_path=folder,
            allow_patterns=[glob.escape(file) for file in files],
            revision=revision,
            commit_message=message or "A spansieve model",
        )
    except Exception as error:  # of whichever HTTP library the Hub's is built on
        raise ModelError(f"{folder} could not be put on the Hub as {name}: {error}") from error
    return str(done.commit_url)


def _network_error() -> Exception | None:
    """What keeps the Hub from being reached, `HF_HUB_OFFLINE` too; None where it answers, whatever it answers."""
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=SECONDS)
    except Exception as error:  # of whichever HTTP library the Hub's is built on
        return error
    return None
