"""A model as a component of a spaCy pipeline, beside others, stored and loaded with it.

python examples/spacy_pipeline.py --model runs/demo/model     # `spansieve demo` leaves one there
"""

from __future__ import annotations

import argparse

import spacy

TEXT = "Ada Lovelace met Charles Babbage in London. Send what is left to room 4021."


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", default="runs/demo/model", help="the folder of a trained model")
    arguments.add_argument("--text", default=TEXT)
    arguments.add_argument("--output", default="runs/pipeline", help="where the pipeline is stored")
    options = arguments.parse_args()

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")  # its sentences are the model's, too
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "ROOM", "pattern": [{"LOWER": "room"}, {"IS_DIGIT": True}]}])
    nlp.add_pipe("spansieve", config={"model": options.model})  # leaves alone what the ruler has found

    doc = nlp(options.text)
    print("entities:", [(span.text, span.label_) for span in doc.ents])
    group = doc.spans["spansieve"]
    for span, probability in zip(group, group.attrs["scores"]):
        print(f"{span.text} is a {span.label_} with probability {probability:.2f}")

    nlp.to_disk(options.output)  # the model goes along
    again = spacy.load(options.output)
    print("stored and loaded:", [(span.text, span.label_) for span in again(options.text).ents])


if __name__ == "__main__":
    main()
