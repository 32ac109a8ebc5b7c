"""Somebody at a browser: signs in, looks, and notes every complaint of the console."""

from __future__ import annotations

from playwright.sync_api import Browser, Page

from tests import builders as b
from tests.browser.house import Server


class Person:
    """A page of a signed-in person, with what the console complained of."""

    def __init__(self, browser: Browser, server: Server, *, width: int = 1440, scheme: str = "light") -> None:
        self.server = server
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, locale="en-GB", timezone_id="Europe/Berlin"
        )
        self.context.set_default_timeout(30_000)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))

    def sign_in(self, name: str = "alice") -> Page:
        """The person is on the board."""
        self.page.goto(f"{self.server.url}/login/")
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password").fill(b.PASSWORD)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(f"{self.server.url}/")
        return self.page

    def leave(self) -> None:
        """The browser window is closed."""
        self.context.close()
