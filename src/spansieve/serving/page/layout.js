// Where the parts of a graph stand: tokens in a row, and above them each candidate on the lowest level that is free.

import { hasDirection, isRightToLeft } from "./text.js";

export const FONT = 16;
export const NAME = 11;
const GAP = 9;
const CLOSE = 3;
const SIDE = 34;

// Tokens as { x, width, text }, in the order in which they are read. `gaps[i]`: there is a blank before token i.
export function placeTokens(texts, gaps, measure, isMirrored) {
  let x = SIDE;
  const tokens = texts.map((text) => ({ x: 0, width: Math.max(12, measure(text, FONT)), text }));
  const order = seenOrder(texts, isMirrored);
  order.forEach((i, place) => {
    const neighbour = place ? order[place - 1] : i;
    x += place ? (gaps[Math.max(i, neighbour)] ? GAP : CLOSE) : 0;
    tokens[i].x = x;
    x += tokens[i].width;
  });
  return { tokens, width: x + SIDE };
}

// The tokens from left to right: what runs against the direction of the sentence is turned round.
export function seenOrder(texts, isMirrored) {
  const order = texts.map((_, i) => i);
  const runs = directions(texts, isMirrored);
  for (let i = 0; i < order.length; ) {
    let end = i + 1;
    while (end < order.length && runs[end] === runs[i]) end += 1;
    if (runs[i] !== isMirrored) order.splice(i, end - i, ...order.slice(i, end).reverse());
    i = end;
  }
  return isMirrored ? order.reverse() : order;
}

// True where a token is read from right to left. One without letters goes with both of its neighbours, or with the rest.
function directions(texts, isMirrored) {
  const known = texts.map((text) => (hasDirection(text) ? isRightToLeft(text) : null));
  return known.map((own, i) => {
    if (own !== null) return own;
    const before = known.slice(0, i).findLast((one) => one !== null);
    const after = known.slice(i + 1).find((one) => one !== null);
    return before === after && before !== undefined ? before : isMirrored;
  });
}

// The span of each candidate on the line, the room that its name takes, and its level.
export function placeCandidates(candidates, names, tokens, measure) {
  const spans = candidates.map((candidate, i) => {
    const own = tokens.slice(candidate.first_token, candidate.last_token + 1);
    const from = Math.min(...own.map((token) => token.x)) + 2;
    const to = Math.max(...own.map((token) => token.x + token.width)) - 2;
    const room = Math.max(to - from, measure(names[i], NAME) + 12);
    const middle = (from + to) / 2;
    return { from, to, middle, low: middle - room / 2, high: middle + room / 2, level: 0 };
  });
  const levels = [];
  const narrowFirst = candidates
    .map((_, i) => i)
    .sort((a, b) => width(candidates[a]) - width(candidates[b]) || candidates[b].best - candidates[a].best);
  for (const i of narrowFirst) {
    const span = spans[i];
    // Above whatever it holds, so that no arc cuts through the name of one inside it.
    let level = 0;
    for (const done of levels.flat()) if (meets(span, done) && holds(span, done)) level = Math.max(level, done.level + 1);
    while ((levels[level] ?? []).some((done) => meets(span, done))) level += 1;
    span.level = level;
    (levels[level] ??= []).push(span);
  }
  return { spans, levels: levels.length };
}

const width = (candidate) => candidate.last_token - candidate.first_token;
const meets = (one, other) => one.low < other.high && other.low < one.high;
const holds = (one, other) => one.from <= other.from && other.to <= one.to;
