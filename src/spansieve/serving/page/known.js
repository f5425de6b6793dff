// What someone has said of the entities of the text: some are there, some are not. The rest is found to fit.

import { element, hueOf } from "./elements.js";
import { tag } from "./marked_text.js";

export const overlaps = (one, other) => one.start < other.end && other.start < one.end;
export const isSame = (one, other) => one.start === other.start && one.end === other.end && one.label === other.label;
const holds = (one, other) => one.start <= other.start && other.end <= one.end;
const bare = ({ start, end, label }) => ({ start, end, label });

export class Known {
  constructor() {
    this.clear();
  }

  clear() {
    this.required = [];
    this.forbidden = [];
  }

  get isEmpty() {
    return !this.required.length && !this.forbidden.length;
  }

  isFixed(entity) {
    return this.required.some((one) => isSame(one, entity));
  }

  // What cannot stand beside it was a mistake, then.
  fix(entity, nests) {
    const clashes = (one) => overlaps(one, entity) && !(nests && holds(one, entity) !== holds(entity, one));
    this.required = [...this.required.filter((one) => !clashes(one)), entity];
    this.forbidden = this.forbidden.filter((one) => !isSame(one, entity));
  }

  forbid(entity) {
    this.required = this.required.filter((one) => !isSame(one, entity));
    if (!this.forbidden.some((one) => isSame(one, entity))) this.forbidden.push(entity);
  }

  forget(entity) {
    this.required = this.required.filter((one) => !isSame(one, entity));
    this.forbidden = this.forbidden.filter((one) => !isSame(one, entity));
  }

  // As the service takes it.
  get constraints() {
    return this.isEmpty ? {} : { constraints: [{ required: this.required.map(bare), forbidden: this.forbidden.map(bare) }] };
  }
}

export function drawKnown(place, known, text, labels, { forget, clear }) {
  place.hidden = known.isEmpty;
  const chip = (entity, isFixed) => {
    const words = text.slice(entity.start, entity.end);
    const drop = element("button", { type: "button", class: "drop", "aria-label": `Forget: ${words}, ${entity.label}` }, "×");
    drop.addEventListener("click", () => forget(entity));
    const kind = isFixed ? "is-fixed" : "is-forbidden";
    const what = element("span", { dir: "auto" }, words);
    return element("li", { class: `chip label ${kind}`, "--hue": hueOf(labels, entity.label) }, what, tag(entity.label), drop);
  };
  const all = element("button", { type: "button", class: "small" }, "Forget all");
  all.addEventListener("click", clear);
  const chips = [...known.required.map((one) => chip(one, true)), ...known.forbidden.map((one) => chip(one, false))];
  place.replaceChildren(element("span", { class: "quiet" }, "Given"), element("ul", { class: "chips" }, ...chips), all);
}
