// The service counts code points, JavaScript counts UTF-16 units: an emoji is one there and two here.

export class Text {
  constructor(text) {
    this.text = text;
    this.points = /[\ud800-\udfff]/.test(text) ? Array.from(text) : null;
  }

  // What stands at [start, end), in code points.
  slice(start, end) {
    return this.points ? this.points.slice(start, end).join("") : this.text.slice(start, end);
  }

  get length() {
    return this.points ? this.points.length : this.text.length;
  }
}

// Half of a surrogate pair is no text; it becomes the sign for that, and no position moves.
export const wellFormed = (text) =>
  text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");

const STRONG = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]|\p{L}/u;
const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

export const hasDirection = (text) => STRONG.test(text);

// By the first letter that has a direction, as dir="auto" does it.
export function isRightToLeft(text) {
  const first = text.match(STRONG);
  return first !== null && RIGHT_TO_LEFT.test(first[0]);
}
