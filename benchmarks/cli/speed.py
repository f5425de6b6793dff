"""The commands that measure speed, ours beside the peers'."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console

from benchmarks.cli.options import RESULTS, Data, Device, Model, Out, Set, chosen, show, write
from spansieve.config import parsed_setting

SecondsEach = Annotated[float, typer.Option(help="time to spend on each contender")]
Threads = Annotated[int, typer.Option(help="of the CPU, for all contenders", min=1)]
Rounds = Annotated[int, typer.Option(help="how often each is run; the medians count", min=1)]


def core(
    device: Annotated[str, typer.Option(help="cpu, on one thread, or cuda")] = "cpu",
    out: Out = RESULTS,
    seconds: SecondsEach = 2.0,
    peers: Annotated[
        bool, typer.Option(help="run pytorch-crf, torch-struct and flash-semicrf too, where installed")
    ] = True,
    growth: Annotated[bool, typer.Option(help="also measure growth with the length, every span kept (CPU)")] = True,
) -> None:
    """Best paths, log Z and gradients of our models and the peers' on the same batch."""
    from benchmarks.core_benchmark import core_page, run_on_cpu, run_on_gpu
    from benchmarks.growth import growth_page, run_growth

    if device not in ("cpu", "cuda"):
        raise typer.BadParameter(f"device must be cpu or cuda, got {device!r}")
    rows = (run_on_gpu if device == "cuda" else run_on_cpu)(seconds, with_peers=peers)
    show(rows)
    write(core_page(rows, device), out)
    if growth and device == "cpu":
        lengths = run_growth()
        show(lengths)
        write(growth_page(lengths), out)


def training_speed(
    encoder: Annotated[str, typer.Argument(help="a Hugging Face encoder's name or folder, or builtin")],
    data: Annotated[Path | None, typer.Option(help="training data; the sample corpus if not given")] = None,
    device: Device = "cuda",
    batch: Annotated[
        list[int] | None, typer.Option(help="sentences in a batch; 8 and 32, or with --graphs 8 and 16, if not given")
    ] = None,
    graphs: Annotated[bool, typer.Option("--graphs", help="steps as CUDA graphs, beside steps by kernels")] = False,
    dev: Annotated[
        Path | None, typer.Option(help="with --graphs: train for five epochs, too, and score on this")
    ] = None,
    test: Annotated[Path | None, typer.Option(help="and on this")] = None,
    seeds: Annotated[
        int,
        typer.Option(min=0, help="of these runs, by graphs and by kernels each; 0: one run by graphs, for its time"),
    ] = 3,
    settings: Annotated[list[str] | None, typer.Option("--set", help="a setting of these runs")] = None,
    note: Annotated[str, typer.Option(help="with --graphs: a sentence for the page, what else there is to know")] = "",
    out: Out = RESULTS,
) -> None:
    """Whole training steps of our models, of a token softmax and of pytorch-crf on one encoder."""
    from tempfile import TemporaryDirectory

    from benchmarks.captured_training import captured_page, run_epochs, run_rows, run_steps
    from benchmarks.training_speed import run_processes, run_throughput, training_speed_page
    from spansieve.data.formats import read_examples, write_examples
    from spansieve.data.sample import sample_corpus

    if (dev is None) != (test is None) or (dev is not None and (data is None or not graphs)):
        raise ValueError("--dev and --test go together, with --graphs and --data, got one without the others")
    if graphs and device != "cuda":
        raise ValueError(f"--graphs needs --device cuda, got {device}")
    examples = sample_corpus().train if data is None else read_examples(data)
    name = Path(encoder).name
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if not graphs:
            rows, processes = run_throughput(encoder, examples, batch or [8, 32], device), []
            show(rows)
            if device == "cpu":
                corpus = sample_corpus()
                write_examples(corpus.train, folder / "train.jsonl")
                write_examples(corpus.dev, folder / "dev.jsonl")
                processes = run_processes(folder / "train.jsonl", folder / "dev.jsonl", len(corpus.train), folder)
                show(processes)
            write(training_speed_page(rows, name, device, processes), out)
            return
        rows, runs = run_steps(encoder, examples, batch or [8, 16]), []
        show(rows)
        if data is not None and dev is not None and test is not None:
            runs = run_epochs(encoder, (data, dev, test), seeds, folder, settings or ())
            show(run_rows(runs))
        write(captured_page(rows, runs, name, note=note), out)


def tagging(
    model: Model,
    data: Data,
    spacy: Annotated[Path | None, typer.Option(help="the folder of a spaCy pipeline with an ner component")] = None,
    out: Out = RESULTS,
) -> None:
    """Words per second of a trained model on one CPU thread, beside spaCy."""
    from benchmarks.tagging_speed import run_tagging_speed, tagging_page
    from spansieve.data.formats import read_examples

    rows = run_tagging_speed(model, read_examples(data), spacy)
    show(rows)
    write(tagging_page(rows, data.name), out)


def spacy_vectors(
    train: Annotated[Path, typer.Argument(help="training data")],
    dev: Annotated[Path, typer.Argument(help="development data")],
    test: Annotated[Path, typer.Argument(help="test data")],
    vectors: Annotated[Path, typer.Option(help="a text file of word vectors, such as GloVe's")],
    folder: Annotated[Path, typer.Option(help="where models go; those that stand there are not trained again")],
    optimize: Annotated[list[str] | None, typer.Option(help="efficiency or accuracy, of spaCy; both if none")] = None,
    beside: Annotated[
        list[str] | None, typer.Option(help="NAME=FOLDER of another model of ours, whose speed is measured, too")
    ] = None,
    settings: Set = None,
    settings_of_spacy: Annotated[
        list[str] | None, typer.Option("--set-spacy", help="one of spaCy's, such as training.max_steps=100")
    ] = None,
    rounds: Rounds = 5,
    note: Annotated[str, typer.Option(help="a sentence for the page: what else there is to know")] = "",
    out: Out = RESULTS,
) -> None:
    """The built-in encoder without and with word vectors beside spaCy with the same: trained, scored and timed."""
    from benchmarks import spacy_vectors as module
    from benchmarks.cli.experiments import read_splits

    splits, wanted = read_splits(train, dev, test), dict(map(parsed_setting, settings or []))
    others = {name: Path(path) for name, _, path in (text.partition("=") for text in beside or [])}
    models = [module.train_ours(splits, path, wanted, folder) for path in (None, vectors)]
    for name in chosen(optimize, module.OPTIMIZE):
        models.append(module.train_spacy(splits, vectors, name, settings_of_spacy or [], folder / "spacy"))
    show([model.row() for model in models])
    speed = module.speed_rows(models, others, splits.test, rounds)
    start = module.start_rows(models, rounds)
    show(speed)
    show(start)
    write(module.spacy_page(models, speed, start, note), out)


def prediction(
    source: Annotated[
        str, typer.Argument(help="a model's folder, or a Hugging Face encoder", metavar="MODEL", show_default=False)
    ],
    data: Data,
    sentences: Annotated[int | None, typer.Option(help="so many of them, drawn by chance; all if not given")] = None,
    rounds: Rounds = 3,
    threads: Threads = 2,
    device: Device = "cpu",
    spanmarker_python: Annotated[
        Path | None, typer.Option(help="the Python of an environment with SpanMarker, to run that, too")
    ] = None,
    note: Annotated[str, typer.Option(help="a sentence for the page: what else there is to know")] = "",
    out: Out = RESULTS,
) -> None:
    """Sentences per second from text to entities with probabilities, and where the time goes.

    On a GPU the time of a few sentences, with CUDA graphs and without, and their memory.
    """
    import torch

    from benchmarks.experiment import drawn
    from benchmarks.prediction_cuda import prediction_cuda_page, run_prediction_cuda
    from benchmarks.prediction_speed import prediction_page, run_prediction_speed
    from spansieve.data.formats import read_examples

    torch.set_num_threads(threads)
    examples = [example for example in read_examples(data) if len(example)]
    if sentences is not None and sentences < len(examples):
        examples = list(drawn(examples, sentences))
    if device != "cpu":
        measured = run_prediction_cuda(Path(source), examples, rounds, device)
        for table in (measured.latency, measured.parts, measured.throughput, measured.memory):
            show(table)
        write(prediction_cuda_page(measured, data.name, note=note), out)
        return
    rows = run_prediction_speed(source, examples, rounds, spanmarker_python)
    show(rows)
    write(prediction_page(rows, len(examples), data.name, rounds, threads, note), out)


def bulk(
    model: Model,
    data: Annotated[Path, typer.Argument(help="labelled text; of its labels no use is made")],
    device: Device = "cuda",
    precision: Annotated[str, typer.Option(help="of the encoder: fp32 or bf16")] = "bf16",
    workers: Annotated[int, typer.Option(help="processes that prepare text; 0: a thread")] = 12,
    batch_tokens: Annotated[int | None, typer.Option(help="or subwords read at once, padding included")] = None,
    words: Annotated[int, typer.Option(help="how many to read; the data is repeated as often as it takes")] = 4_000_000,
    out: Out = RESULTS,
) -> None:
    """Words per second of preparing text, of the device, of decoding, and of all of it together."""
    from benchmarks.bulk_speed import Row, Setting, bulk_page, run_bulk_speed
    from spansieve.data.formats import read_examples

    console = Console()

    def show_row(row: Row) -> None:
        stage, where, rate, each = row.values()
        console.print(f"{stage:36} {where:16} {rate:>12} words/s {each:>8} µs/word", highlight=False, soft_wrap=True)

    setting = Setting(device, cast(Any, precision), workers, batch_tokens, words)
    measured = run_bulk_speed(model, read_examples(data), setting, show_row)
    if measured.profile:
        console.print(measured.profile, highlight=False, soft_wrap=True, markup=False)
    write(bulk_page(measured, data.name, device), out)


def onnx(
    models: Annotated[list[Path], typer.Argument(help="folders of models", metavar="MODEL...", show_default=False)],
    data: Data,
    rounds: Rounds = 3,
    threads: Threads = 2,
    out: Out = RESULTS,
) -> None:
    """Size, start-up, memory and speed of models with torch and as ONNX, in full and in 8 bits."""
    from benchmarks.onnx_table import onnx_page, run_onnx_table
    from spansieve.data.formats import read_examples

    examples = read_examples(data)
    rows = [row for model in models for row in run_onnx_table(model, examples, rounds, threads)]
    show(rows)
    write(onnx_page(rows, len(examples), data.name, threads), out)


def service(
    model: Model,
    clients: Annotated[int, typer.Option(min=1, help="how many ask at once")] = 32,
    seconds: Annotated[float, typer.Option(min=1, help="for how long")] = 60.0,
    requests: Annotated[int, typer.Option(min=1, help="at least so many, to see what memory it takes")] = 10_000,
    threads: Annotated[int | None, typer.Option(min=1, help="of the model; all processors but one if not set")] = None,
    out: Out = RESULTS,
) -> None:
    """Waits, requests per second and memory of the service with many clients at once, on this machine."""
    from benchmarks.service_load import run_service_load, service_page

    load = run_service_load(model, clients, seconds, requests, threads)
    for name, value in load.row().items():
        Console().print(f"{name:>18}  {value}", highlight=False)
    write(service_page(load), out)


def service_hostile(
    model: Model,
    clients: Annotated[int, typer.Option(min=1, help="how many good ones ask at once")] = 32,
    slow_clients: Annotated[int, typer.Option(min=0, help="how many never end their requests")] = 300,
    seconds: Annotated[float, typer.Option(min=1, help="for how long")] = 60.0,
    threads: Annotated[int | None, typer.Option(min=1, help="of the model; all processors but one if not set")] = None,
    out: Out = RESULTS,
) -> None:
    """Waits of good clients and probes beside slow, large and costly requests, on this machine."""
    from benchmarks.service_hostile import hostile_page, run_hostile_load

    load = run_hostile_load(model, clients, slow_clients, seconds, threads)
    show([party.row() for party in load.parties])
    write(hostile_page(load), out)


def nested_speed(
    device: Annotated[str, typer.Option(help="cpu, on one thread, or cuda")] = "cpu",
    seconds: SecondsEach = 1.0,
    out: Out = RESULTS,
) -> None:
    """Laminar sets beside disjoint ones of the same candidates; on the CPU also how the cost grows with the length."""
    from benchmarks.nested_speed import nested_speed_page, run_growth, run_side_by_side

    rows = run_side_by_side(seconds, device)
    show(rows)
    growth = run_growth() if device == "cpu" else []
    write(nested_speed_page(rows, growth, device), out)


def soft_filters(seconds: SecondsEach = 0.05, out: Out = RESULTS) -> None:
    """Candidates listed and every span swept over, as the filter keeps more, on one CPU thread; and a budget."""
    from benchmarks import soft_filters as module

    rows, bounded = module.run_forms(seconds), module.run_budget(seconds)
    show(module.break_even(rows))
    show(bounded)
    write(module.soft_filters_page(rows, bounded), out)


def startup(
    before: Annotated[str, typer.Option(help="the revision of this repository to compare with", show_default=False)],
    rounds: Rounds = 7,
    out: Out = RESULTS,
) -> None:
    """How long the prediction of one sentence takes from the command line, before and after."""
    from benchmarks.startup import run_startup, startup_page

    rows = run_startup(before, rounds)
    show(rows)
    write(startup_page(rows, before), out)


def neighbours(
    encoder: Annotated[
        Path | None, typer.Argument(help="the folder of a Hugging Face encoder; without one the demo is run instead")
    ] = None,
    rounds: Rounds = 1,
    out: Out = RESULTS,
) -> None:
    """Training and prediction beside a busy process, by how many threads there are and how they wait."""
    from benchmarks.neighbours import demo_page, neighbours_page, run_demo, run_neighbours

    if encoder is None:
        rows = run_demo()
        page = demo_page(rows)
    else:
        rows = run_neighbours(encoder, rounds, lambda row: Console().print(*row.values(), highlight=False))
        page = neighbours_page(rows, encoder.name)
    show(rows)
    write(page, out)
