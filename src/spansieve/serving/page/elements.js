// Elements are made of text nodes, never of markup: what a user pastes stays text.

const SVG = "http://www.w3.org/2000/svg";

export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("--")) node.style.setProperty(key, value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

export const byId = (id) => document.getElementById(id);

// Far apart for the first few labels, and never two alike.
const HUES = [255, 155, 30, 310, 85, 205, 350, 125];
export const hueOf = (labels, label) => {
  const i = Math.max(0, labels.indexOf(label));
  return i < HUES.length ? HUES[i] : (HUES[i % HUES.length] + 17 * Math.floor(i / HUES.length)) % 360;
};

// Two digits, but 1.00 only for what rounds to it and is not less than certain.
export const shown = (probability) => {
  if (probability > 0 && probability < 0.005) return "<0.01";
  if (probability < 1 && probability >= 0.995) return ">0.99";
  return probability.toFixed(2);
};
