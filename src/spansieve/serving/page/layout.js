// Where the parts of a graph stand: tokens in a row, and above them each candidate on the lowest level that is free.

export const FONT = 16;
export const NAME = 11;
const GAP = 9;
const CLOSE = 3;
const SIDE = 34;

// Tokens as { x, width, text }, from the side where the sentence begins.
export function placeTokens(texts, gaps, measure, isMirrored) {
  let x = SIDE;
  const tokens = texts.map((text, i) => {
    x += i === 0 ? 0 : gaps[i] ? GAP : CLOSE;
    const width = Math.max(12, measure(text, FONT));
    const token = { x, width, text };
    x += width;
    return token;
  });
  const total = x + SIDE;
  if (isMirrored) for (const token of tokens) token.x = total - token.x - token.width;
  return { tokens, width: total };
}

// The span of each candidate on the line, the room that its name takes, and its level.
export function placeCandidates(candidates, names, tokens, measure, isMirrored) {
  const spans = candidates.map((candidate, i) => {
    const [one, other] = [tokens[candidate.first_token], tokens[candidate.last_token]];
    const [left, right] = isMirrored ? [other, one] : [one, other];
    const [from, to] = [left.x + 2, right.x + right.width - 2];
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
