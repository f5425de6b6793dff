// What an entity might have been instead: the candidates that share a token with it, and the segmentations without it. Any
// of them can be fixed, and the entity forbidden.

import { byId, element, hueOf, shown } from "./elements.js";
import { isSame, overlaps } from "./known.js";
import { meter } from "./marked_text.js";

const MARGIN = 8;

export function openCard(entity, sentence, text, labels, anchor, say) {
  const card = byId("card");
  card.replaceChildren(...contents(entity, sentence, text, labels, say));
  card.addEventListener(
    "toggle",
    (event) => {
      anchor.setAttribute("aria-expanded", String(event.newState === "open"));
      if (event.newState === "closed" && card.contains(document.activeElement)) anchor.focus();
    },
    { signal: renewed() },
  );
  card.hidePopover();
  card.showPopover();
  place(card, anchor.getClientRects()[0]);
  anchor.setAttribute("aria-expanded", "true");
  card.focus({ preventScroll: true });
}

let listening = new AbortController();
function renewed() {
  listening.abort();
  listening = new AbortController();
  return listening.signal;
}

function contents(entity, sentence, text, labels, say) {
  const own = choice(entity.text, entity.label, entity.probability, labels);
  const fixed = say.isFixed(entity);
  const keep = fixed ? action("Forget", say.forget, entity) : action("Fix", say.fix, entity);
  const actions = element("div", { class: "actions" }, keep, action("Forbid", say.forbid, entity));
  const parts = [element("ul", { class: "choices own" }, own), actions];
  const rivals = (sentence?.graph?.candidates ?? []).filter((one) => overlaps(one, entity) && !isSame(one, entity));
  if (rivals.length) {
    rivals.sort((a, b) => b.probability - a.probability);
    const items = rivals.slice(0, 8).map((one) => {
      const row = choice(text.slice(one.start, one.end), one.label, one.probability, labels);
      row.append(action("Fix", say.fix, one, text.slice(one.start, one.end)));
      return row;
    });
    parts.push(element("h4", {}, "Candidates in its place"), element("ul", { class: "choices with-actions" }, ...items));
  }
  const others = (sentence?.alternatives ?? []).filter((one) => !one.entities.some((e) => isSame(e, entity)));
  if (others.length) {
    const items = others.slice(0, 5).map((one) => alternative(one, entity, labels));
    parts.push(element("h4", {}, "Segmentations of the sentence without it"), element("ul", { class: "choices" }, ...items));
  }
  if (!rivals.length && !others.length) parts.push(element("p", { class: "quiet" }, reason(sentence)));
  return parts;
}

function action(name, act, entity, what = entity.text) {
  const label = `${name}: ${what}, ${entity.label}`;
  const button = element("button", { type: "button", class: "small", "aria-label": label }, name);
  button.addEventListener("click", () => act(entity));
  return button;
}

function reason(sentence) {
  if (!sentence) return "Alternatives were not asked for: the text is long.";
  if (sentence.note && !sentence.alternatives) return `No alternatives: ${sentence.note}.`;
  if (sentence.graph) return "The filter kept nothing else here: every segmentation of the sentence has it.";
  return "None of the best segmentations of the sentence is without it.";
}

function alternative(one, entity, labels) {
  const here = one.entities.filter((e) => overlaps(e, entity));
  const what = here.length ? here.map((e) => e.text).join(" · ") : "nothing here";
  const kind = [...new Set(here.map((e) => e.label))].join(" · ");
  return choice(what, kind, one.probability, labels);
}

function choice(what, label, probability, labels) {
  const hue = labels.includes(label) ? { class: "label", "--hue": hueOf(labels, label) } : {};
  return element(
    "li",
    hue,
    element("span", { class: "what", dir: "auto" }, what),
    element("span", { class: "kind" }, label),
    meter(probability),
    element("span", { class: "share" }, shown(probability)),
  );
}

function place(card, box) {
  const { offsetWidth: width, offsetHeight: height } = card;
  const left = Math.min(Math.max(MARGIN, box.left), innerWidth - width - MARGIN);
  const isBelow = box.bottom + MARGIN + height <= innerHeight || box.top < height + MARGIN;
  card.style.left = `${left}px`;
  card.style.top = `${isBelow ? box.bottom + MARGIN : box.top - height - MARGIN}px`;
}
