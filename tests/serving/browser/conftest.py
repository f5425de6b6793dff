from __future__ import annotations

import shutil

import pytest
from selenium import webdriver

from tests.serving.browser.reader import Reader
from tests.serving.running import running
from tests.serving.tiny import trained

OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1100,1000",
)


@pytest.fixture(scope="package")
def chromium(tmp_path_factory):
    driver = shutil.which("chromedriver")
    assert driver, "these tests need chromedriver: apt-get install chromium chromium-driver"
    options = webdriver.ChromeOptions()
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield browser
    browser.quit()


@pytest.fixture
def open_page(chromium):
    """A page of a service; whatever the browser complains of, such as a broken content policy, fails the test."""

    def opened(served) -> Reader:
        return Reader(chromium, served.address)

    chromium.get_log("browser")
    yield opened
    complaints = [entry["message"] for entry in chromium.get_log("browser")]
    chromium.get("about:blank")
    # A refusal that the test asked for is no complaint.
    assert [one for one in complaints if "the server responded with a status of" not in one] == []


@pytest.fixture
def page(open_page, server) -> Reader:
    return open_page(server)


@pytest.fixture(scope="package")
def chain_server(one_thread):
    """Of a model without candidates."""
    with running(trained("crf")) as served:
        yield served


@pytest.fixture(scope="package")
def nested_server(one_thread):
    with running(trained("nested")) as served:
        yield served
