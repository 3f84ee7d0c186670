"""Tell by a POST of JSON. Imports the configuration's secrets."""

import json
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from nightfit.config.sections.secret import Secret
from nightfit.types import NightfitError

LONGEST = 30.0  # seconds for the server's answer


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An alert goes to the address that was given, and to no other."""

    def redirect_request(self, *_: object) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """An address that takes JSON with a key `text`, as Slack, Mattermost and others do, and the alert's own keys."""

    url: Secret
    folder: Path
    name: str = "webhook"

    def send(self, content: dict[str, str | None], subject: str) -> None:
        address = self.url.read(self.folder)
        if not address.startswith(("https://", "http://")):
            raise NightfitError("notify.webhook: the address is not one of http or https")
        body = json.dumps({"text": f"{subject}. {content['words']}", **content}).encode()
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=LONGEST) as answer:
            answer.read(1024)
