"""Requests made from the OpenAPI description, good and bad: none is answered otherwise than it says."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

OPERATIONS = [("POST", "/predict"), ("GET", "/model"), ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics")]


@pytest.fixture(scope="module")
def api(server):
    return schemathesis.openapi.from_url(f"{server.address}/openapi.json")


def test_these_are_all(api):
    described = {(found.ok().method.upper(), found.ok().path) for found in api.get_all_operations()}
    assert described == set(OPERATIONS)


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [
        *((*operation, GenerationMode.POSITIVE) for operation in OPERATIONS),
        ("POST", "/predict", GenerationMode.NEGATIVE),
    ],
)
def test_the_service_is_as_described(api, server, method, path, mode):
    statuses = set()

    @settings(
        max_examples=60 if method == "POST" else 3,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=api[path][method].as_strategy(generation_mode=mode))
    def check(case):
        answer = case.call_and_validate(base_url=server.address)
        statuses.add(answer.status_code)

    check()
    expected = 422 if mode is GenerationMode.NEGATIVE else 200
    assert expected in statuses
    assert 500 not in statuses
