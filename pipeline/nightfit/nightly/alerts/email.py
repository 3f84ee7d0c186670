"""Tell by mail. Imports the configuration's section."""

import smtplib
import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path

from nightfit.config.sections.notify import Email as Section

LONGEST = 60.0  # seconds for each answer of the mail server


@dataclass(frozen=True, kw_only=True)
class Email:
    """A plain-text mail by SMTP; with a server elsewhere, over TLS whose certificate is checked."""

    section: Section
    folder: Path
    name: str = "email"

    def send(self, content: dict[str, str | None], subject: str) -> None:
        section, message = self.section, EmailMessage()
        message["Subject"], message["From"], message["To"] = subject, section.sender, ", ".join(section.to)
        message.set_content("\n".join([str(content["words"]), "", *(f"{key}: {value}" for key, value in content.items() if value)]))
        secure = ssl.create_default_context()
        server = (
            smtplib.SMTP_SSL(section.host, section.port, timeout=LONGEST, context=secure)
            if section.security == "tls"
            else smtplib.SMTP(section.host, section.port, timeout=LONGEST)
        )
        with server:
            if section.security == "starttls":
                server.starttls(context=secure)
            if section.user is not None and section.password is not None:
                server.login(section.user, section.password.read(self.folder))
            server.send_message(message)
