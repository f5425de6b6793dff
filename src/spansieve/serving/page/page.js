// The page: a text is sent, and its answer is shown.

import { openCard } from "./card.js";
import * as client from "./client.js";
import { byId, element } from "./elements.js";
import { drawGraph } from "./graph.js";
import { Known, drawKnown } from "./known.js";
import { drawLegend, drawMarkedText, drawAlternatives } from "./marked_text.js";
import { Text, wellFormed } from "./text.js";

const ALTERNATIVES = 5;
const EXAMPLE =
  "Alain Farley works at McGill University. On Monday he met Dr. Rosa Lindqvist of the Nordic Institute for Ocean " +
  "Studies in New Haven, and together they flew to Lisbon for the World Chess Cup.";

const SENSES = {
  marginal: "Probabilities are exact marginals of the model.",
  "given-candidates": "Probabilities are exact marginals, given the candidates that the filter kept.",
  "with-filter": "Probabilities are exact marginals, given the candidates, times the filter’s own.",
};

let about = null; // the model
let answer = null; // { text, result }
let pending = null;
const known = new Known();

const token = () => byId("token").value.trim();

function say(what, isWrong = false) {
  byId("status").textContent = what;
  byId("status").classList.toggle("is-wrong", isWrong);
}

function askForToken() {
  byId("ask-token").hidden = false;
  byId("token").focus();
}

// ---- The model

async function meet() {
  try {
    about = await client.model(token());
    byId("model").textContent = `${about.name} · ${about.head} · ${about.labels.join(", ")}`;
    byId("sense").textContent = SENSES[about.probability];
    say("");
  } catch (error) {
    if (error.status === 401) askForToken();
    else if (error.status === 503) {
      say("The model is being loaded …");
      setTimeout(meet, 1000);
    } else say(error.message, true);
  }
}

// ---- Asking

async function find() {
  const text = new Text(wellFormed(byId("text").value));
  if (!about) await meet();
  if (!about) return;
  pending?.abort();
  const mine = (pending = new AbortController());
  const isShort = text.length <= about.limits.explained_characters;
  if (text.text !== answer?.text.text) known.clear(); // it was said of another text
  const more = isShort ? { alternatives: Math.min(ALTERNATIVES, about.limits.alternatives), graph: about.has_graph } : {};
  const wish = { ...more, ...known.constraints };
  say("Predicting …");
  const begin = performance.now();
  try {
    const { results } = await client.predict(text.text, wish, token(), mine.signal);
    show(text, results[0]);
    const count = results[0].entities.length;
    say(`${count || "No"} ${count === 1 ? "entity" : "entities"} in ${Math.round(performance.now() - begin)} ms`);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error.status === 401) askForToken();
    say(error.message, true);
  }
}

// ---- Showing

function show(text, result) {
  answer = { text, result };
  byId("card").hidePopover();
  drawLegend(byId("legend"), result.entities, about.labels);
  drawMarkedText(byId("marked"), text, result, about.labels, { entity: chooseEntity, sentence: chooseSentence }, known);
  drawKnown(byId("known"), known, text, about.labels, { forget: said("forget"), clear: said("clear") });
  byId("result").hidden = false;
  const sentences = result.sentences ?? [];
  byId("explained").hidden = false;
  byId("choose").hidden = sentences.length < 2;
  byId("sentence").replaceChildren(
    ...sentences.map((one, i) => element("option", { value: i }, `${i + 1}. ${shortened(text.slice(one.start, one.end))}`)),
  );
  if (sentences.length) chooseSentence(0);
  else showNothing(result.sentences === null);
}

const shortened = (text) => {
  const points = Array.from(text.replace(/\s+/gu, " "));
  return points.length > 60 ? `${points.slice(0, 60).join("")}…` : points.join("");
};

function showNothing(isLong) {
  const limit = about.limits.explained_characters.toLocaleString("en");
  byId("note").textContent = isLong
    ? `The text is longer than ${limit} characters: entities only, without segmentations and graphs.`
    : "There is no sentence in this text.";
  for (const id of ["figure", "alternatives-title", "alternatives"]) byId(id).hidden = true;
  byId("explained").hidden = !isLong;
}

function chooseEntity(entity, index, node) {
  chooseSentence(index);
  const say = { fix: said("fix"), forbid: said("forbid"), forget: said("forget"), isFixed: (one) => known.isFixed(one) };
  openCard(entity, answer.result.sentences?.[index], answer.text, about.labels, node, say);
}

// Something is said of an entity of the text that is shown, and the rest is found again.
const said = (verb) => async (entity) => {
  known[verb](entity, about.head.startsWith("nested"));
  byId("text").value = answer.text.text;
  const shown = byId("sentence").value;
  await find();
  if (answer.result.sentences?.[shown]) chooseSentence(Number(shown));
};

function chooseSentence(index) {
  const sentence = answer.result.sentences?.[index];
  if (!sentence) return;
  for (const node of byId("marked").querySelectorAll(".sentence"))
    node.classList.toggle("is-shown", Number(node.dataset.sentence) === index);
  byId("sentence").value = String(index);
  byId("previous").disabled = index === 0;
  byId("next").disabled = index === answer.result.sentences.length - 1;
  showGraph(sentence);
  const alternatives = sentence.alternatives ?? [];
  byId("alternatives-title").hidden = byId("alternatives").hidden = !alternatives.length;
  drawAlternatives(byId("alternatives"), alternatives, about.labels);
}

function showGraph(sentence) {
  const { graph, note } = sentence;
  byId("tip").hidden = true;
  byId("graph-title").textContent = about.has_graph ? "The filtered graph" : "Segmentations";
  const without = about.has_graph ? "" : `A ${about.head} model has no candidates, so there is no graph to draw.`;
  byId("note").textContent = note ? `${note[0].toUpperCase()}${note.slice(1)}.` : without;
  byId("figure").hidden = !graph;
  if (!graph) return;
  drawGraph(byId("graph"), sentence, answer.text, about.labels);
  const chosen = graph.candidates.filter((one) => one.best).length;
  const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  const kept = `${plural(sentence.tokens.length, "token")}, ${plural(graph.candidates.length, "candidate")} kept by the filter`;
  const edges = graph.num_edges ? `, ${plural(graph.num_edges, "edge")}; ${chosen} on the best path` : `; ${chosen} chosen`;
  byId("counts").textContent = kept + edges;
  byId("edges").parentElement.hidden = !graph.edges?.length;
}

// ---- Listening

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  find();
});
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    find();
  }
});
byId("example").addEventListener("click", () => {
  byId("text").value = EXAMPLE;
  find();
});
byId("sentence").addEventListener("change", (event) => chooseSentence(Number(event.target.value)));
byId("previous").addEventListener("click", () => chooseSentence(Number(byId("sentence").value) - 1));
byId("next").addEventListener("click", () => chooseSentence(Number(byId("sentence").value) + 1));
byId("edges").addEventListener("change", (event) => byId("graph").classList.toggle("with-edges", event.target.checked));
byId("graph").addEventListener("scroll", () => (byId("tip").hidden = true), { passive: true });

meet();
