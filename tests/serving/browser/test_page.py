"""The page in a real browser: what is pasted is shown as it is, and what is shown is what the service said."""

from __future__ import annotations

import pytest
from selenium.webdriver import Keys

from tests.serving.running import running, until

pytestmark = pytest.mark.browser

TEXT = "Ada Lovelace lives in New York . the Bank of York"


def test_entities_are_marked_with_their_probabilities(page, server):
    page.read(TEXT)
    (result,) = server.results(TEXT)
    assert page.entities() == [(e["text"], e["label"]) for e in result["entities"]]
    assert page.plain == TEXT
    shown = [mark.text for mark in page.all("#marked .probability")]
    assert len(shown) == len(result["entities"])
    assert all(one[-2:].isdigit() for one in shown)
    assert page.status.startswith(f"{len(shown)} entit")


@pytest.mark.parametrize(
    "text",
    [
        "👍🏽 Ada Lovelace 🇫🇷 Paris",
        "𝒳 we went to Paris yesterday 👩‍👩‍👧 we went to Paris yesterday",
        "سافرنا إلى القاهرة أمس",
        "  we   went\tto\n Paris   yesterday  ",
    ],
)
def test_positions_are_right_in_any_text(page, server, text):
    page.read(text)
    (result,) = server.results(text)
    assert result["entities"]
    assert page.entities() == [(e["text"], e["label"]) for e in result["entities"]]
    assert page.plain == text


@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script> we went to Paris yesterday", '"><img src=x onerror=alert(1)> & <b>Ada Lovelace</b>'],
)
def test_markup_stays_text(page, text):
    page.read(text)
    assert page.plain == text
    for place in ("marked", "graph", "alternatives", "sentence"):
        assert page.run(f"return document.querySelectorAll('#{place} script, #{place} img, #{place} b').length") == 0


def test_half_a_character_does_not_break_it(page):
    page.run("document.getElementById('text').value = 'we went to Paris \\ud83d yesterday'")
    page["text"].send_keys(Keys.CONTROL, Keys.ENTER)
    until(lambda: " in " in page.status)
    assert page.plain == "we went to Paris \ufffd yesterday"


def test_an_empty_text(page):
    page.read("")
    assert page.status.startswith("No entities")
    assert page.entities() == []
    assert not page["explained"].is_displayed()


# ---- Alternatives ----------------------------------------------------------------------------------------------------


def test_an_entity_shows_what_else_it_might_be(page, server):
    page.read("the Bank of York")
    (result,) = server.results("the Bank of York", alternatives=5)
    mark = page.all("#marked .entity")[0]
    mark.click()
    assert page["card"].is_displayed()
    assert mark.get_attribute("aria-expanded") == "true"
    others = result["sentences"][0]["alternatives"][1:]
    assert others
    assert "Segmentations of the sentence without it" in page["card"].text
    for segmentation in others:
        for entity in segmentation["entities"]:
            assert entity["text"] in page["card"].text
    page.press(Keys.ESCAPE)
    until(lambda: not page["card"].is_displayed())
    assert mark.get_attribute("aria-expanded") == "false"


def button(page, name: str):
    (found,) = [one for one in page.all("#card button, #known button") if one.get_attribute("aria-label") == name]
    return found


def test_an_entity_is_fixed_or_forbidden_and_the_rest_changes(page, server):
    text = "the Bank of York"
    page.read(text)
    ((words, label),) = page.entities()
    (result,) = server.results(text, graph=True)
    (own,) = result["entities"]
    rival = next(
        one
        for one in result["sentences"][0]["graph"]["candidates"]
        if (one["start"], one["label"]) != (own["start"], own["label"])
    )
    page.all("#marked .entity")[0].click()
    button(page, f"Forbid: {words}, {label}").click()
    until(lambda: (words, label) not in page.entities())
    assert page["known"].is_displayed()
    assert page.all("#known .is-forbidden")[0].text.startswith(words)
    (agreed,) = server.results(text, constraints=[{"forbidden": [{k: own[k] for k in ("start", "end", "label")}]}])
    assert page.entities() == [(e["text"], e["label"]) for e in agreed["entities"]]
    button(page, f"Forget: {words}, {label}").click()
    until(lambda: page.entities() == [(words, label)])
    assert not page["known"].is_displayed()
    page.all("#marked .entity")[0].click()
    other = text[rival["start"] : rival["end"]]
    button(page, f"Fix: {other}, {rival['label']}").click()
    until(lambda: page.entities() == [(other, rival["label"])])
    mark = page.all("#marked .entity.is-fixed")[0]
    assert mark.get_attribute("aria-label") == f"{other}, {rival['label']}, fixed"
    assert page.plain == text
    page.read("we went to Paris yesterday")  # of another text nothing has been said
    assert not page["known"].is_displayed()
    assert page.entities() == [("Paris", "LOC")]


def test_all_of_it_by_keyboard(page):
    page.read(TEXT)
    page.press(Keys.TAB)
    for _ in range(8):
        if "entity" in (page.focused.get_attribute("class") or ""):
            break
        page.press(Keys.TAB)
    first = page.focused
    assert first.get_attribute("aria-label").startswith("Ada Lovelace, PER, probability")
    page.press(Keys.ENTER)
    assert page["card"].is_displayed()
    page.press(Keys.ESCAPE)
    assert page.focused == first
    for _ in range(20):
        page.press(Keys.TAB)
        if "candidate" in (page.focused.get_attribute("class") or ""):
            break
    one = page.focused
    assert "local score" in one.get_attribute("aria-label")
    assert page["tip"].is_displayed()
    page.press(Keys.ARROW_RIGHT)
    assert page.focused != one
    assert "candidate" in page.focused.get_attribute("class")


# ---- The graph -------------------------------------------------------------------------------------------------------


def test_the_graph_has_every_candidate_and_the_best_path(page, server):
    page.read("the Bank of York")
    graph = server.results("the Bank of York", graph=True)[0]["sentences"][0]["graph"]
    assert len(page.all("#graph .candidate")) == len(graph["candidates"])
    assert len(page.all("#graph .candidate.is-best")) == sum(one["best"] for one in graph["candidates"])
    assert len(page.all("#graph .edge")) == graph["num_edges"]
    best = sum(one["best"] for one in graph["candidates"])
    assert len(page.all("#graph .edge.is-best")) == best + 1
    assert f"{len(graph['candidates'])} candidate" in page["counts"].text
    hidden = [edge for edge in page.all("#graph .edge") if edge.value_of_css_property("visibility") == "hidden"]
    assert len(hidden) == graph["num_edges"] - best - 1
    page["edges"].click()
    assert all(edge.value_of_css_property("visibility") == "visible" for edge in page.all("#graph .edge"))


def test_scores_are_shown_on_hover(page, server):
    page.read("we went to Paris yesterday")
    (candidate, *_) = server.results("we went to Paris yesterday", graph=True)[0]["sentences"][0]["graph"]["candidates"]
    page.hover(page.all("#graph .candidate .name")[0])
    until(page["tip"].is_displayed)
    assert f"{candidate['local_score']:.2f}" in page["tip"].text
    assert f"{candidate['global_score']:.2f}" in page["tip"].text


def test_one_of_many_sentences_is_chosen(page):
    page.read("we went to Paris yesterday. Ada Lovelace lives in New York . the Bank of York")
    assert len(page.all("#sentence option")) > 1
    words = lambda: [token.text for token in page.all("#graph .token")]  # noqa: E731
    assert "Paris" in words()
    page["next"].click()
    assert "Lovelace" in words()
    assert page.all(".sentence.is-shown")[0].get_attribute("data-sentence") == "1"
    page.all("#marked .entity")[0].click()  # of the first again
    assert "Paris" in words()


def test_tokens_stand_in_the_order_of_the_script(page):
    place = "return [...document.querySelectorAll('.token')].map((t) => [t.textContent, Number(t.getAttribute('x'))])"
    page.read("سافرنا إلى القاهرة أمس")
    words = [word for word, _ in sorted(page.run(place), key=lambda pair: -pair[1])]
    assert words == ["سافرنا", "إلى", "القاهرة", "أمس"]
    page.read("سافرنا إلى New York أمس")  # what is written from left to right stays so
    words = [word for word, _ in sorted(page.run(place), key=lambda pair: -pair[1])]
    assert words == ["سافرنا", "إلى", "York", "New", "أمس"]
    page.read("we went to Paris yesterday")
    words = [word for word, _ in sorted(page.run(place), key=lambda pair: pair[1])]
    assert words == ["we", "went", "to", "Paris", "yesterday"]


def test_a_model_without_candidates_says_so(open_page, chain_server):
    page = open_page(chain_server)
    page.read("we went to Paris yesterday")
    assert page.entities() == [("Paris", "LOC")]
    assert not page["figure"].is_displayed()
    assert "no candidates" in page["note"].text
    assert page.all("#alternatives li")


def test_nested_entities_are_marked_within_each_other(open_page, nested_server):
    page = open_page(nested_server)
    (result,) = nested_server.results("the Bank of York")
    page.read("the Bank of York")
    assert sorted(page.entities()) == sorted((e["text"], e["label"]) for e in result["entities"])
    assert page.plain == "the Bank of York"
    assert page["figure"].is_displayed()


# ---- Refusals and looks ----------------------------------------------------------------------------------------------


def test_a_text_too_long_for_graphs_has_its_entities(open_page, predictor):
    with running(predictor, explained_characters=100, text_characters=2_000) as served:
        page = open_page(served)
        page.read("word " * 30 + "we went to Paris yesterday")
        assert page.entities() == [("Paris", "LOC")]
        assert "longer than 100 characters" in page["note"].text
        page.read("word " * 500)
        assert "at most 2,000 characters" in page.status


def test_the_token_is_asked_for(open_page, predictor):
    with running(predictor, token="geheim") as served:
        page = open_page(served)
        assert page["ask-token"].is_displayed()
        page["token"].send_keys("geheim")
        page.read("we went to Paris yesterday")
        assert page.entities() == [("Paris", "LOC")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(page, scheme):
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    page.read(TEXT)
    measured = page.run(CONTRAST)
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert min(measured.values()) >= 4.5, measured


# Of the text of each kind against what lies behind it, as WCAG counts it. A canvas turns any colour into bytes.
CONTRAST = """
const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
  .getContext("2d", { willReadFrequently: true });
const bytes = (colour) => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data]; };
const light = (colour) => bytes(colour).slice(0, 3).map((v) => v / 255)
  .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (node) => {
  for (; node; node = node.parentElement) {
    const colour = getComputedStyle(node).backgroundColor;
    if (bytes(colour)[3] === 255) return colour;
  }
  return "white";
};
const found = {};
const kinds = "#marked|#marked .entity|#marked .tag|#status|#legend li|.share|button.main|#counts|.chip|.chip .tag";
for (const selector of kinds.split("|")) {
  const node = document.querySelector(selector);
  const [a, b] = [light(getComputedStyle(node).color), light(behind(node))].sort((x, y) => y - x);
  found[selector] = (a + 0.05) / (b + 0.05);
}
return found;
"""
