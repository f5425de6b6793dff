"""The page, as someone uses it."""

from __future__ import annotations

from typing import Any

from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.serving.running import until

# The marked text as it was sent: without the tags behind the entities.
PLAIN = """
const copy = document.getElementById("marked").cloneNode(true);
copy.querySelectorAll(".tag").forEach((tag) => tag.remove());
return copy.textContent;
"""


class Reader:
    def __init__(self, browser: Chrome, address: str) -> None:
        self.browser = browser
        browser.get(address)
        until(lambda: self["model"].text != "" or self["ask-token"].is_displayed())

    def __getitem__(self, identity: str) -> WebElement:
        return self.browser.find_element(By.ID, identity)

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def read(self, text: str) -> None:
        """Paste and send. Not typed: the driver knows no characters beyond the first plane."""
        self.run("document.getElementById('text').value = arguments[0]", text)
        self["text"].send_keys(Keys.CONTROL, Keys.ENTER)
        until(lambda: " in " in self.status or "is-wrong" in self["status"].get_attribute("class"))

    @property
    def status(self) -> str:
        return self["status"].text

    @property
    def plain(self) -> str:
        return self.run(PLAIN)

    def entities(self) -> list[tuple[str, str]]:
        """Text and label of each that is marked."""
        script = """return [...document.querySelectorAll("#marked .entity")].map((mark) => {
            const copy = mark.cloneNode(true);
            copy.querySelectorAll(".tag").forEach((tag) => tag.remove());
            return [copy.textContent, mark.lastElementChild.firstChild.textContent];
        })"""
        return [tuple(pair) for pair in self.run(script)]

    def press(self, *keys: str) -> None:
        ActionChains(self.browser).send_keys(*keys).perform()

    def hover(self, element: WebElement) -> None:
        ActionChains(self.browser).move_to_element(element).perform()

    @property
    def focused(self) -> WebElement:
        return self.browser.switch_to.active_element
