"""The service over HTTP: what it answers, what it refuses and how it says so."""

from __future__ import annotations

import json
import re
import socket
import threading
import time

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spansieve.prediction.predictor import Predictor
from spansieve.prediction.text_predictor import TextPredictor
from tests.serving.running import problem, running, until
from tests.serving.tiny import trained

TEXT = "Ada Lovelace lives in New York . the Bank of York"


# ---- Answers ---------------------------------------------------------------------------------------------------------


def test_entities_are_those_of_the_predictor(server, predictor):
    texts = [TEXT, "", "👍🏽 Ada Lovelace 🇫🇷 Paris", "سافرنا إلى القاهرة أمس", "word"]
    results = server.results(*texts)
    for text, result in zip(texts, results):
        assert set(result) == {"entities", "sentences"}
        assert result["sentences"] is None
        expected = [{"depth": 0} | entity._asdict() for entity in predictor.predict(text)]
        assert result["entities"] == [
            entity | {"probability": pytest.approx(entity["probability"], abs=1e-5)} for entity in expected
        ]
        assert all(text[e["start"] : e["end"]] == e["text"] for e in result["entities"])
    assert results[0]["entities"]
    assert server.results() == []


def test_probabilities_can_be_left_out(server):
    (result,) = server.results(TEXT, probabilities=False)
    assert result["entities"]
    assert {entity["probability"] for entity in result["entities"]} == {None}


def test_alternatives_are_the_best_segmentations(server, predictor):
    (result,) = server.results("the Bank of York", alternatives=3)
    (sentence,) = result["sentences"]
    (analysis,) = predictor.analyse("the Bank of York", top_k=3)
    assert len(analysis.alternatives) > 1
    assert sentence["entropy"] == pytest.approx(analysis.entropy, abs=1e-4)
    assert sentence["graph"] is sentence["note"] is None
    for one, best in zip(sentence["alternatives"], analysis.alternatives, strict=True):
        assert one["probability"] == pytest.approx(best.probability, abs=1e-5)
        assert [(e["start"], e["end"], e["label"]) for e in one["entities"]] == [e[:3] for e in best.entities]


def test_the_graph_of_a_sentence(server):
    text = f"we went to Paris yesterday. {TEXT}"
    (result,) = server.results(text, graph=True)
    assert len(result["sentences"]) == 2
    for sentence in result["sentences"]:
        assert sentence["graph"]["candidates"]
        words = [text[start:end] for start, end in sentence["tokens"]]
        graph = sentence["graph"]
        assert sentence["alternatives"] is None
        for one in graph["candidates"]:
            joined = text[one["start"] : one["end"]]
            assert joined.split() == words[one["first_token"] : one["last_token"] + 1]
        best = [(one["start"], one["end"], one["label"]) for one in graph["candidates"] if one["best"]]
        inside = [e for e in result["entities"] if sentence["start"] <= e["start"] < sentence["end"]]
        assert best == [(e["start"], e["end"], e["label"]) for e in inside]
        assert len(graph["edges"]) == graph["num_edges"]


@pytest.mark.parametrize("head", ["crf", "semicrf", "nested"])
def test_every_model_can_be_served(head):
    with running(trained(head)) as served:
        about = served.client.get("/model").json()
        assert (about["name"], about["head"], about["labels"]) == ("tiny", head, ["LOC", "ORG", "PER"])
        (result,) = served.results("we went to Paris yesterday", alternatives=2, graph=True)
        assert [(e["text"], e["label"]) for e in result["entities"]] == [("Paris", "LOC")]
        (sentence,) = result["sentences"]
        assert (sentence["graph"] is not None) == about["has_graph"]
        assert (sentence["note"] is None) == about["has_graph"]
        assert about["probability"] == ("given-candidates" if about["has_graph"] else "marginal")
        assert sentence["alternatives"][0]["entities"][0]["text"] == "Paris"


def test_a_long_sentence_is_read_and_its_graph_is_declined_with_a_reason(server):
    (result,) = server.results("word " * 600 + "we went to Paris yesterday", graph=True, alternatives=2)
    assert [e["text"] for e in result["entities"]] == ["Paris"]
    (sentence,) = result["sentences"]
    assert sentence["graph"] is sentence["alternatives"] is None
    assert "605 tokens" in sentence["note"]


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(
        st.one_of(
            st.text(max_size=40),
            st.text("aé👍🏽ق\u200b\u200f\n. ", max_size=20),
            st.text("é👍🏽\u200b\n ", max_size=9).map(lambda odd: f"{odd}we went to Paris yesterday{odd}"),
        ),
        max_size=3,
    )
)
def test_offsets_hold_in_any_unicode(server, texts):
    for text, result in zip(texts, server.results(*texts, alternatives=1), strict=True):
        assert all(text[e["start"] : e["end"]] == e["text"] for e in result["entities"])
        for sentence in result["sentences"]:
            assert sentence["tokens"][0][0] == sentence["start"]
            assert sentence["tokens"][-1][1] == sentence["end"]


# ---- Refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[]", "the body"),
        (b"{}", "texts: Field required"),
        (b'{"texts": "Paris"}', "texts: Input should be a valid list"),
        (b'{"texts": [1]}', "texts[0]: Input should be a valid string"),
        (b'{"texts": [], "top": 1}', "top: Extra inputs are not permitted"),
        (b'{"texts": [], "alternatives": -1}', "alternatives: "),
        (b'{"texts": [], "alternatives": 11}', "alternatives must be at most 10, got 11"),
        (b'{"texts": [], "graph": 1}', "graph: Input should be a valid boolean"),
        (b'{"texts": ["a", "b \\ud83d c"]}', "texts[1] must be Unicode, got half a surrogate pair at 2"),
        (json.dumps({"texts": ["a"] * 129}).encode(), "texts must be at most 128, got 129"),
        (b'{"texts": [' + b"[]," * 200_000 + b"[]]}", "texts[0]: Input should be a valid string"),
        (
            b'{"texts": []' + b"".join(b', "%d": 1' % i for i in range(50_000)) + b"}",
            "an object must have at most 16 fields, got 50,001",
        ),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(server, body, reason):
    answer = server.client.post("/predict", content=body, headers={"Content-Type": "application/json"})
    told = problem(answer, 422, "invalid")
    assert reason in told
    assert len(told) < 1_000


def test_what_is_no_json_is_malformed(server):
    bodies = (b'{"texts": ["\xff"]}', b"[" * 100_000, b"{", b'{"texts": ["a"', b"", b"9" * 5_000, b'{"texts": [] []}')
    for body in bodies:
        answer = server.client.post("/predict", content=body, headers={"Content-Type": "application/json"})
        problem(answer, 400, "malformed")


@pytest.mark.parametrize(
    ("headers", "got"),
    [
        ({}, "got none"),
        ({"Content-Type": "text/plain"}, "got 'text/plain'"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, "got 'application/x-www-form-urlencoded'"),
    ],
)
def test_a_body_that_is_not_said_to_be_json_is_told_of_the_header(server, headers, got):
    answer = server.client.post("/predict", content=b'{"texts": []}', headers=headers)
    reason = problem(answer, 415, "unsupported_media_type")
    assert "`Content-Type: application/json`" in reason
    assert got in reason
    for media_type in ("application/json; charset=utf-8", "application/problem+json"):
        answer = server.client.post("/predict", content=b'{"texts": []}', headers={"Content-Type": media_type})
        assert answer.status_code == 200


def test_a_threshold(server, predictor):
    text = "the Bank of York"
    entities = predictor.predict(text)
    probabilities = sorted(entity.probability for entity in entities)
    assert probabilities
    assert probabilities[0] < 0.99
    for threshold in (0, probabilities[0] / 2, (1 + probabilities[-1]) / 2, 1):
        (result,) = server.results(text, threshold=threshold)
        expected = [e for e in entities if e.probability >= threshold]
        assert [(e["start"], e["end"]) for e in result["entities"]] == [(e.start, e.end) for e in expected]
        (bare,) = server.results(text, threshold=threshold, probabilities=False)
        assert [e["text"] for e in bare["entities"]] == [e["text"] for e in result["entities"]]
    labels = dict.fromkeys(predictor.labels, 0.0)
    (result,) = server.results(text, threshold=1, constraints=[{"thresholds": labels}])
    assert len(result["entities"]) == len(entities)  # a label's own wins
    for wrong in (-0.1, 1.1, "0.5"):
        assert "threshold: " in problem(server.predict(text, threshold=wrong), 422, "invalid")


def test_the_reference_needs_nothing_from_elsewhere(server):
    page = server.client.get("/docs")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    links = re.findall(r'(?:href|src)="([^"]*)"', page.text)
    assert "openapi.json" in links
    assert [link for link in links if "//" in link] == []
    for link in links:
        path, _, anchor = link.partition("#")
        assert server.client.get(f"/{path.removeprefix('./')}").status_code == 200
        assert not anchor or f'id="{anchor}"' in page.text
    for name in ("POST /predict", "GET /readyz", "threshold", "Retry-After", "Alternative"):
        assert name in page.text
    assert 'href="docs"' in server.client.get("/").text


def test_no_page_of_elsewhere_may_call_it_unless_it_is_named(server, predictor):
    asks = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    asks["Access-Control-Request-Headers"] = "authorization,content-type"
    allowed = "access-control-allow-origin"
    assert allowed not in server.client.options("/predict", headers=asks).headers
    assert allowed not in server.client.get("/healthz", headers=asks).headers
    with running(predictor, token="geheim", cors_origins=["https://example.org"]) as served:
        asked = served.client.options("/predict", headers=asks)
        assert (asked.status_code, asked.headers[allowed]) == (200, "https://example.org")
        refused = served.client.post("/predict", json={"texts": []}, headers=asks)
        problem(refused, 401, "unauthorized")
        assert refused.headers[allowed] == "https://example.org"  # or the page could not read why
        other = served.client.options("/predict", headers=asks | {"Origin": "https://example.com"})
        assert allowed not in other.headers


def test_paths_and_methods(server):
    problem(server.client.get("/nothing"), 404, "not_found")
    problem(server.client.get("/page/../server.py"), 404, "not_found")
    for path in ("/healthz/", "/predict/"):  # no redirect, which would go to where the client says that it came from
        answer = server.client.get(path, headers={"Host": "evil.example"})
        problem(answer, 404, "not_found")
        assert "location" not in answer.headers
    answer = server.client.get("/predict")
    problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"


def test_sizes(predictor):
    with running(
        predictor, body_bytes=5_000, text_characters=100, explained_characters=150, sentence_tokens=60
    ) as served:
        reason = problem(served.predict("ok", "a" * 101), 413, "text_too_long")
        assert reason == "texts[1] must have at most 100 characters, got 101"
        problem(served.predict("a" * 80, "b" * 80, graph=True), 413, "texts_too_long")
        assert served.predict("a" * 80, "b" * 80).status_code == 200
        assert served.client.get("/model").json()["limits"]["sentence_tokens"] == 60
        reason = problem(served.predict("ok", "字" * 61), 413, "sentence_too_long")
        assert reason.startswith("texts[1] must have at most 60 tokens in a sentence, got 61")
        assert served.predict("字字字字。" * 18).status_code == 200
        assert "5,000 bytes" in problem(served.predict("a" * 6_000), 413, "body_too_large")

        def stream():  # without Content-Length
            yield b'{"texts": ["'
            for _ in range(100):
                yield b"a" * 1_000

        headers = {"Content-Type": "application/json"}
        problem(served.client.post("/predict", content=stream(), headers=headers), 413, "body_too_large")
        assert served.predict("still there").status_code == 200


def test_a_token(predictor):
    with running(predictor, token="geheim") as served:
        for path in ("/healthz", "/readyz", "/", "/openapi.json"):
            assert served.client.get(path).status_code == 200
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic geheim"}):
            answer = served.client.post("/predict", json={"texts": []}, headers=header)
            problem(answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"
            problem(served.client.get("/metrics", headers=header), 401, "unauthorized")
        right = {"Authorization": "Bearer geheim"}
        assert served.client.post("/predict", json={"texts": []}, headers=right).status_code == 200
        assert served.client.get("/model", headers=right).status_code == 200
        assert "HTTPBearer" in served.client.get("/openapi.json").text


class Held(Predictor):
    """A predictor whose worker waits until it may go."""

    can_explain = False

    def __init__(self, predictor) -> None:
        super().__init__(predictor.tagger)
        self.may_go, self.is_busy = threading.Event(), threading.Event()
        self.may_go.set()
        self.seen: list[str] = []

    def predict_tokens(self, sentences, probabilities=False, constraints=None):
        words = [word for sentence in sentences for word in sentence]
        self.seen += words
        if "explosive" in words:
            raise RuntimeError("boom")
        self.is_busy.set()
        assert self.may_go.wait(20)
        return super().predict_tokens(sentences, probabilities, constraints)

    def explain_tokens(self, sentences, wanted, constraints=None):
        return TextPredictor.explain_tokens(self, sentences, wanted, constraints)

    def hold(self) -> None:
        self.may_go.clear()
        self.is_busy.clear()


@pytest.fixture
def held(predictor):
    model = Held(predictor)
    yield model
    model.may_go.set()


def in_background(call) -> tuple[threading.Thread, list]:
    found: list = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    return thread, found


def posted(served, text: str) -> httpx.Response:
    """By a client of its own."""
    return httpx.post(f"{served.address}/predict", json={"texts": [text]}, timeout=30)


def test_a_text_that_the_model_cannot_bear(held):
    with running(lambda: held) as served:
        held.hold()
        blocker, _ = in_background(lambda: served.predict("first"))
        assert held.is_busy.wait(20)
        calls = [
            in_background(lambda text=text: posted(served, text))
            for text in ("we went to Paris yesterday", "explosive", "word")
        ]
        until(lambda: len(served.service.batcher._jobs) == 3)
        held.may_go.set()
        for thread, _ in [(blocker, None), *calls]:
            thread.join(20)
        good, bad, other = (found[0] for _, found in calls)
        assert good.json()["results"][0]["entities"][0]["text"] == "Paris"
        assert "texts[0]" in problem(bad, 500, "model_failed")
        assert "boom" not in bad.text
        assert other.status_code == 200
        assert "spansieve_failed_texts_total 1.0" in served.client.get("/metrics").text


def test_a_full_queue(held):
    with running(lambda: held, queue=1) as served:
        held.hold()
        calls = [in_background(lambda: posted(served, "a"))]
        assert held.is_busy.wait(20)
        calls.append(in_background(lambda: posted(served, "b")))
        until(lambda: len(served.service.batcher._jobs) == 1)
        answer = served.predict("c")
        problem(answer, 429, "queue_full")
        assert int(answer.headers["retry-after"]) >= 1
        held.may_go.set()
        for thread, found in calls:
            thread.join(20)
            assert found[0].status_code == 200


def test_an_answer_that_takes_too_long(held):
    with running(lambda: held, seconds=0.3) as served:
        held.hold()
        assert "0.3 s" in problem(served.predict("a"), 504, "too_slow")
        problem(served.predict("waits in vain"), 504, "too_slow")
        assert not served.service.batcher._jobs
        held.may_go.set()
        until(lambda: served.predict("word").status_code == 200)
        assert "vain" not in held.seen


def test_a_client_that_goes_leaves_the_queue(held):
    with running(lambda: held) as served:
        held.hold()
        blocker, _ = in_background(lambda: served.predict("a"))
        assert held.is_busy.wait(20)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{served.address}/predict", json={"texts": ["forgotten"]}, timeout=httpx.Timeout(10, read=0.3))
        until(lambda: not served.service.batcher._jobs)
        held.may_go.set()
        blocker.join(20)
        assert "forgotten" not in held.seen
        assert 'spansieve_requests_total{path="/predict",status="499"} 1.0' in served.client.get("/metrics").text


def test_a_body_that_does_not_come(predictor):
    with running(predictor, seconds=0.3) as served:
        host, port = served.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            head = (
                b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
            )
            connection.sendall(head)
            connection.settimeout(20)
            answer = b""
            while part := connection.recv(4096):
                answer += part
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"body_too_slow" in answer


def test_before_the_model_is_loaded(predictor):
    may_load = threading.Event()

    def load():
        assert may_load.wait(20)
        return predictor

    with running(load, wait=False) as served:
        assert served.client.get("/healthz").json() == {"status": "ok"}
        for answer in (served.client.get("/readyz"), served.client.get("/model"), served.predict("a")):
            problem(answer, 503, "not_ready")
            assert "retry-after" in answer.headers
        assert "spansieve_ready 0.0" in served.client.get("/metrics").text
        may_load.set()
        until(lambda: served.client.get("/readyz").status_code == 200)
        assert served.client.get("/readyz").json() == {"status": "ready"}
        assert served.predict("a").status_code == 200


def test_it_is_warm_before_it_is_ready(predictor, monkeypatch):
    may_warm_up, warm_up = threading.Event(), predictor.warm_up

    def warmed_up():
        assert may_warm_up.wait(20)
        warm_up()

    monkeypatch.setattr(predictor, "warm_up", warmed_up)
    with running(predictor, wait=False) as served:
        problem(served.client.get("/readyz"), 503, "not_ready")
        may_warm_up.set()
        until(lambda: served.client.get("/readyz").status_code == 200)


def test_shutting_down_finishes_what_it_accepted(held):
    with running(lambda: held) as served:
        held.hold()
        thread, found = in_background(lambda: posted(served, "a"))
        assert held.is_busy.wait(20)
        served.client.get("/healthz")  # an open connection
        served.service.batcher.refuse_new()
        problem(served.predict("late"), 503, "shutting_down")
        problem(served.client.get("/readyz"), 503, "shutting_down")
        served.service.server.is_ending = True
        time.sleep(0.3)
        held.may_go.set()
        thread.join(20)
        assert found[0].status_code == 200


# ---- Around it -------------------------------------------------------------------------------------------------------


def test_metrics(predictor):
    with running(predictor) as served:
        served.predict("we went to Paris", "word")
        served.predict("x", top=3)
        served.client.get("/unheard-of/path")
        told = served.client.get("/metrics")
        assert told.headers["content-type"].startswith("text/plain")
        for line in (
            'spansieve_requests_total{path="/predict",status="200"} 1.0',
            'spansieve_requests_total{path="/predict",status="422"} 1.0',
            'spansieve_requests_total{path="other",status="404"} 1.0',
            'spansieve_request_seconds_count{path="/predict"} 2.0',
            "spansieve_queue_length 0.0",
            "spansieve_ready 1.0",
            "spansieve_batch_texts_sum 2.0",
            "spansieve_texts_total 2.0",
        ):
            assert f"\n{line}\n" in told.text
        assert "/unheard-of" not in told.text  # whoever asks for nonsense must not fill the memory
        assert "spansieve_tokens_total" in told.text


def test_two_services_have_metrics_of_their_own(server, predictor):
    server.predict("a")
    with running(predictor) as other:
        assert "spansieve_texts_total 0.0" in other.client.get("/metrics").text


def test_the_page_and_its_files(server):
    page = server.client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in page.text.replace("http-equiv", "")
    script = server.client.get("/page/page.js")
    assert script.headers["content-type"].startswith("text/javascript")
    again = server.client.get("/page/page.js", headers={"If-None-Match": script.headers["etag"]})
    assert again.status_code == 304


def test_openapi_says_what_is_refused_and_how_much_is_taken(predictor):
    with running(predictor, texts=7) as served:
        schema = served.client.get("/openapi.json").json()
        operation = schema["paths"]["/predict"]["post"]
        assert set(operation["responses"]) == {
            "200",
            "400",
            "408",
            "409",
            "413",
            "415",
            "422",
            "429",
            "500",
            "503",
            "504",
        }
        for status, response in operation["responses"].items():
            name = response["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            assert name == ("PredictResponse" if status == "200" else "Problem")
        assert schema["components"]["schemas"]["PredictRequest"]["properties"]["texts"]["maxItems"] == 7
        assert "HTTPValidationError" not in schema["components"]["schemas"]
