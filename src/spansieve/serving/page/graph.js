// The filtered graph over its sentence: candidates as arcs, who may follow whom as edges, the best path in colour.

import { byId, drawn, element, hueOf, shown } from "./elements.js";
import { FONT, NAME, placeCandidates, placeTokens } from "./layout.js";
import { isRightToLeft } from "./text.js";

const LEVEL = 32; // from one to the next
const FIRST = 30; // from the ground to the first
const TOP = 14;
const ROOM = 32; // for the tokens
const DEPTH = 30; // of the edges below them

const canvas = document.createElement("canvas").getContext("2d");
function measure(text, size) {
  canvas.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return canvas.measureText(text).width;
}

export function drawGraph(place, sentence, text, labels) {
  const isMirrored = isRightToLeft(text.slice(sentence.start, sentence.end));
  const { candidates, edges } = sentence.graph;
  const words = sentence.tokens.map(([start, end]) => text.slice(start, end));
  const gaps = sentence.tokens.map(([start], i) => i > 0 && start > sentence.tokens[i - 1][1]);
  const { tokens, width } = placeTokens(words, gaps, measure, isMirrored);
  const names = candidates.map((one) => `${one.label} ${shown(one.probability)}`);
  const { spans, levels } = placeCandidates(candidates, names, tokens, measure);
  const ground = TOP + FIRST + Math.max(0, levels - 1) * LEVEL;
  const height = ground + ROOM + DEPTH + 4;
  for (const span of spans) span.top = ground - FIRST - span.level * LEVEL;

  const ends = isMirrored ? { start: width - 10, end: 10 } : { start: 10, end: width - 10 };
  const lines = (edges ?? []).map((edge) => drawEdge(edge, candidates, spans, ends, ground, isMirrored));
  const texts = candidates.map((one) => text.slice(one.start, one.end));
  const arcs = candidates.map((one, i) => drawCandidate(one, spans[i], ground, names[i], texts[i], labels));
  const svg = drawn(
    "svg",
    {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "group",
      "aria-label": `Graph of ${candidates.length} candidates`,
      class: isMirrored ? "is-mirrored" : "",
    },
    drawn("g", {}, ...candidates.filter((one) => one.best).map((one) => drawGround(one, spans, candidates, ground, labels))),
    drawn("g", {}, ...lines),
    drawn("g", {}, ...tokens.map((token) => drawToken(token, ground))),
    drawn("g", {}, ...arcs),
    ...Object.entries(ends).map(([name, x]) => drawEnd(name, x, ground)),
  );
  place.replaceChildren(svg);
  place.scrollLeft = isMirrored ? place.scrollWidth : 0;
  listen(arcs, lines, edges ?? [], candidates, texts);
}

function drawToken(token, ground) {
  const middle = token.x + token.width / 2;
  return drawn("text", { class: "token", x: middle, y: ground + 25, "text-anchor": "middle" }, token.text);
}

function drawGround(candidate, spans, candidates, ground, labels) {
  const { from, to } = spans[candidates.indexOf(candidate)];
  const hue = hueOf(labels, candidate.label);
  return drawn("rect", { class: "ground label", "--hue": hue, x: from - 3, y: ground + 7, width: to - from + 6, height: FONT + 8, rx: 5 });
}

function drawEnd(name, x, ground) {
  return drawn("g", {}, drawn("title", {}, name), drawn("circle", { class: "end", cx: x, cy: ground, r: 4 }));
}

function drawCandidate(candidate, span, ground, name, text, labels) {
  const path = arc(span, ground);
  const plate = measure(name, NAME) + 10;
  const scores = `local score ${candidate.local_score.toFixed(2)}, global score ${candidate.global_score.toFixed(2)}`;
  const place = candidate.best ? "on the best path" : "not on the best path";
  return drawn(
    "g",
    {
      class: `candidate label${candidate.best ? " is-best" : ""}`,
      role: "img",
      tabindex: -1,
      "aria-label": `${text}, ${candidate.label}, probability ${shown(candidate.probability)}, ${scores}, ${place}`,
      "--hue": hueOf(labels, candidate.label),
      "--share": candidate.probability,
    },
    drawn("path", { class: "arc", d: path }),
    drawn("path", { class: "hit", d: path }),
    drawn("rect", { class: "plate", x: span.middle - plate / 2, y: span.top - 8, width: plate, height: 16, rx: 8 }),
    drawn("text", { class: "name", x: span.middle, y: span.top + 4 }, name),
  );
}

// A cubic whose highest point is at the candidate's level.
function arc({ from, to, top }, ground) {
  const pull = ground - ((ground - top) * 4) / 3;
  return `M${from} ${ground}C${from} ${pull} ${to} ${pull} ${to} ${ground}`;
}

// The best path walks along the ground from arc to arc; what else may follow whom goes below the tokens.
function drawEdge(edge, candidates, spans, ends, ground, isMirrored) {
  const from = edge.source === null ? ends.start : foot(spans[edge.source], !isMirrored);
  const to = edge.target === null ? ends.end : foot(spans[edge.target], isMirrored);
  const isBest = (i) => i === null || candidates[i].best;
  if (isBest(edge.source) && isBest(edge.target) && isNext(edge, candidates))
    return drawn("path", { class: "edge is-best", d: `M${from} ${ground}H${to}` });
  const floor = ground + ROOM;
  const depth = floor + Math.min(DEPTH, 10 + Math.abs(to - from) / 14) * (4 / 3);
  return drawn("path", { class: "edge", d: `M${from} ${floor}C${from} ${depth} ${to} ${depth} ${to} ${floor}` });
}

const foot = (span, isRight) => (isRight ? span.to : span.from);

// True when no candidate of the best path stands between the two.
function isNext({ source, target }, candidates) {
  const after = source === null ? -1 : candidates[source].last_token;
  const before = target === null ? Infinity : candidates[target].first_token;
  return !candidates.some((one) => one.best && one.first_token > after && one.last_token < before);
}

// ---- Looking at one

function listen(arcs, lines, edges, candidates, texts) {
  const order = candidates.map((_, i) => i).sort((a, b) =>
    candidates[a].first_token - candidates[b].first_token || candidates[a].last_token - candidates[b].last_token);
  if (order.length) arcs[order[0]].setAttribute("tabindex", "0");
  const look = (i, isOn) => {
    arcs[i].classList.toggle("is-looked-at", isOn);
    edges.forEach((edge, k) => {
      if (edge.source === i || edge.target === i) lines[k].classList.toggle("is-looked-at", isOn);
    });
    if (isOn) showTip(arcs[i], candidates[i], texts[i]);
    else byId("tip").hidden = true;
  };
  arcs.forEach((node, i) => {
    node.addEventListener("pointerenter", () => look(i, true));
    node.addEventListener("pointerleave", () => look(i, false));
    node.addEventListener("focus", () => look(i, true));
    node.addEventListener("blur", () => look(i, false));
    node.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const next = order[(order.indexOf(i) + step + order.length) % order.length];
      node.setAttribute("tabindex", "-1");
      arcs[next].setAttribute("tabindex", "0");
      arcs[next].focus();
    });
  });
  lines.forEach((line, k) => line.append(drawn("title", {}, `transition ${edges[k].transition.toFixed(2)}`)));
}

function showTip(node, candidate, text) {
  const tip = byId("tip");
  const rows = [
    ["probability, given the candidates", candidate.probability.toPrecision(3)],
    ["probability by the filter alone", candidate.local_probability.toPrecision(3)],
    ["local score, over null", candidate.local_score.toFixed(2)],
    ["global score", candidate.global_score.toFixed(2)],
  ];
  tip.replaceChildren(
    element("b", {}, text),
    ` ${candidate.label}${candidate.best ? ", on the best path" : ""}`,
    element("dl", {}, ...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
  );
  tip.hidden = false;
  const box = node.querySelector(".name").getBoundingClientRect();
  const left = Math.min(Math.max(8, box.left + box.width / 2 - tip.offsetWidth / 2), innerWidth - tip.offsetWidth - 8);
  tip.style.left = `${left}px`;
  tip.style.top = `${box.top - tip.offsetHeight - 10 > 4 ? box.top - tip.offsetHeight - 10 : box.bottom + 14}px`;
}
