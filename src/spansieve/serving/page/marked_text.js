// The text as it was sent, with its entities marked.

import { element, hueOf, shown } from "./elements.js";

export function drawMarkedText(place, text, result, labels, choose, known) {
  const sentences = result.sentences ?? [{ start: 0, end: text.length }];
  const waiting = [...result.entities].sort((a, b) => a.start - b.start || b.end - a.end);
  const parts = [];
  let reached = 0;
  sentences.forEach((sentence, index) => {
    parts.push(text.slice(reached, sentence.start));
    const span = element("span", { class: "sentence", "data-sentence": index });
    const make = (entity, inside) => mark(entity, inside, labels, index, choose, known.isFixed(entity));
    span.append(...marked(text, sentence, waiting, make));
    span.addEventListener("click", () => choose.sentence(index));
    parts.push(span);
    reached = sentence.end;
  });
  parts.push(text.slice(reached, text.length));
  place.replaceChildren(...parts);
  place.classList.toggle("has-many", sentences.length > 1);
}

// What stands between the two ends of `whole`, with the entities in it; an entity may hold others.
function marked(text, whole, waiting, make) {
  const parts = [];
  let reached = whole.start;
  while (waiting.length && waiting[0].end <= whole.end) {
    const entity = waiting.shift();
    parts.push(text.slice(reached, entity.start), make(entity, marked(text, entity, waiting, make)));
    reached = entity.end;
  }
  parts.push(text.slice(reached, whole.end));
  return parts;
}

function mark(entity, inside, labels, sentence, choose, isFixed) {
  const node = element(
    "mark",
    {
      class: `entity label${isFixed ? " is-fixed" : ""}`,
      role: "button",
      tabindex: 0,
      "aria-haspopup": "dialog",
      "aria-expanded": "false",
      "aria-label": `${entity.text}, ${entity.label}, ${isFixed ? "fixed" : `probability ${shown(entity.probability)}`}`,
      "--hue": hueOf(labels, entity.label),
    },
    ...inside,
    tag(entity.label, isFixed ? "fixed" : shown(entity.probability)),
  );
  const open = (event) => {
    event.stopPropagation();
    choose.entity(entity, sentence, node);
  };
  node.addEventListener("click", open);
  node.addEventListener("keydown", (event) => {
    if (event.target !== node || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    open(event);
  });
  return node;
}

export function tag(label, probability = null) {
  const made = element("span", { class: "tag", "aria-hidden": "true" }, label);
  if (probability !== null) made.append(element("span", { class: "probability" }, probability));
  return made;
}

export function drawLegend(place, entities, labels) {
  const count = (label) => entities.filter((entity) => entity.label === label).length;
  const items = labels.map((label) =>
    element("li", { class: "label", "--hue": hueOf(labels, label) }, `${label} ${count(label) || ""}`.trim()),
  );
  place.replaceChildren(...items);
}

export function drawAlternatives(place, alternatives, labels) {
  const items = alternatives.map((one) =>
    element(
      "li",
      {},
      element("span", { class: "share" }, shown(one.probability)),
      meter(one.probability),
      element("span", { class: "chips" }, ...chips(one.entities, labels)),
    ),
  );
  place.replaceChildren(...items);
}

function chips(entities, labels) {
  if (!entities.length) return [element("span", { class: "quiet" }, "no entity")];
  return entities.map((entity) =>
    element("span", { class: "chip label", "--hue": hueOf(labels, entity.label) }, entity.text, tag(entity.label)),
  );
}

export const meter = (share) =>
  element("span", { class: "meter", "aria-hidden": "true", "--share": share }, element("i"));
