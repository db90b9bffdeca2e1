"""Where letters go: a webhook (JSON), Slack's incoming webhooks, e-mail by SMTP. One address says which and where.

    https://HOST/PATH                      the letter as JSON; the header Idempotency-Key is its id
    slack+https://hooks.slack.com/...      blocks, as Slack wants them
    smtp://USER:PASSWORD@HOST:587/ops@example.org?from=dure@example.org    STARTTLS where the server offers it
    smtps://HOST/ops@example.org           TLS from the first byte
    local+http://127.0.0.1:9000/hook       any of them on this machine or its link, which are refused otherwise

A name is resolved and checked for every letter, and the letter goes to the very address that was checked. The
notifier calls `deliver`. What a later try may mend is `Temporary`, all else `Permanent` or `NotAllowed`.
"""

from __future__ import annotations

import smtplib
import ssl
from email.message import EmailMessage
from hashlib import sha256
from typing import Any, Protocol
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import httpx
import msgspec

from dure.adapters.outside import check_host
from dure.model.errors import InvalidInput, Permanent, Temporary
from dure.model.units import Seconds
from dure.watch.notices import Letter

PATIENCE_S: Seconds = 15.0
_LOCAL = "local+"
# Slack takes at most 50 blocks of 3,000 characters.
_SLACK_BLOCKS, _SLACK_TEXT = 48, 2_900


class Channel(Protocol):
    @property
    def name(self) -> str:
        """Without secrets: shown in logs and lists, and the key under which letters wait for it."""
        ...

    def deliver(self, letter: Letter) -> None: ...


def channel_of(address: str) -> Channel:
    """The channel that an address names; `InvalidInput` with an example otherwise."""
    local, plain = address.startswith(_LOCAL), address.removeprefix(_LOCAL)
    is_slack, url = plain.startswith("slack+"), plain.removeprefix("slack+")
    parts = urlsplit(url)
    is_web, is_mail = parts.scheme in ("http", "https"), parts.scheme in ("smtp", "smtps")
    if not parts.hostname or not (is_web or (is_mail and not is_slack)):
        raise InvalidInput(
            f"'{address.split('@')[-1][:80]}' is no address for notices",
            remedy="Say https://HOST/PATH, slack+https://..., or smtp://HOST:587/ops@example.org.",
        )
    if is_mail and "@" not in parts.path:
        raise InvalidInput(f"'{parts.hostname}' needs a reader", remedy="Say smtp://HOST/ops@example.org.")
    # Refused now rather than with the first trouble, where no name server has to be asked.
    if _speaks_for_itself(parts.hostname):
        _checked(parts.hostname, _port(parts), parts.hostname, local)
    if is_mail:
        return Mail(url, local=local)
    return Slack(url, local=local) if is_slack else Webhook(url, local=local)


class Webhook:
    def __init__(self, url: str, *, local: bool = False) -> None:
        self._url, self._local = url, local
        self.name = f"{'slack' if isinstance(self, Slack) else 'webhook'} {urlsplit(url).hostname}:{_tag(url)}"

    def deliver(self, letter: Letter) -> None:
        parts, url = urlsplit(self._url), httpx.URL(self._url)
        host = parts.hostname or ""
        target = url.copy_with(host=_checked(host, _port(parts), self.name, self._local))
        headers = {
            "content-type": "application/json",
            "idempotency-key": letter.id,
            "host": parts.netloc.rpartition("@")[2],
        }
        body = msgspec.json.encode(self.body(letter))
        try:
            with httpx.Client(timeout=PATIENCE_S, trust_env=False, follow_redirects=False) as http:
                answer = http.post(target, content=body, headers=headers, extensions={"sni_hostname": host})
        except httpx.HTTPError as error:
            raise Temporary(f"no answer: {error}", where=self.name) from error
        if answer.status_code >= 300:
            told = f"answers {answer.status_code}: {answer.text[:100]}"
            mends = answer.status_code >= 500 or answer.status_code in (408, 425, 429)
            raise Temporary(told, where=self.name) if mends else Permanent(told, where=self.name)

    def body(self, letter: Letter) -> Any:
        return {"title": letter.title, **msgspec.to_builtins(letter)}


class Slack(Webhook):
    def body(self, letter: Letter) -> Any:
        sections = [_section(_escaped(line)) for line in letter.lines()[:_SLACK_BLOCKS]]
        more = len(letter.notices) - len(sections)
        if more > 0:
            sections.append(_section(f"and {more} more: `dure status`"))
        return {"text": _escaped(letter.title), "blocks": [_section(f"*{_escaped(letter.title)}*"), *sections]}


class Mail:
    def __init__(self, address: str, *, local: bool = False) -> None:
        parts = urlsplit(address)
        self._tls, self._local = parts.scheme == "smtps", local
        self._host, self._port = parts.hostname or "", _port(parts)
        self._user, self._password = unquote(parts.username or ""), unquote(parts.password or "")
        self._reader = unquote(parts.path.lstrip("/"))
        self._writer = parse_qs(parts.query).get("from", [f"dure@{self._host}"])[0]
        self.name = f"mail {self._reader}"

    def deliver(self, letter: Letter) -> None:
        message = EmailMessage()
        message["Subject"], message["From"], message["To"] = letter.title, self._writer, self._reader
        message["Message-ID"] = f"<{letter.id}@dure>"
        message.set_content("\n\n".join(letter.lines()) + "\n")
        try:
            with self._connected() as server:
                server.send_message(message)
        except smtplib.SMTPResponseException as error:
            told = f"answers {error.smtp_code}: {error.smtp_error!r}"
            kind = Temporary if error.smtp_code < 500 else Permanent
            raise kind(told, where=self.name) from error
        except smtplib.SMTPRecipientsRefused as error:
            if all(code < 500 for code, _ in error.recipients.values()):
                raise Temporary(f"does not take it now: {error}", where=self.name) from error
            raise Permanent(f"does not know the reader: {error}", where=self.name) from error
        except (smtplib.SMTPException, OSError) as error:
            raise Temporary(f"no answer: {error}", where=self.name) from error

    def _connected(self) -> smtplib.SMTP:
        context = ssl.create_default_context()
        address = _checked(self._host, self._port, self.name, self._local)
        server: smtplib.SMTP = (
            smtplib.SMTP_SSL(timeout=PATIENCE_S, context=context) if self._tls else smtplib.SMTP(timeout=PATIENCE_S)
        )
        # The connection goes to the address that was checked; its certificate must be that of the name.
        server._host = self._host  # type: ignore[attr-defined]
        server.connect(address, self._port)
        if not self._tls:
            server.ehlo()
            if server.has_extn("starttls"):
                server.starttls(context=context)
        if self._user:
            server.login(self._user, self._password)
        return server


def _port(parts: SplitResult) -> int:
    return parts.port or {"https": 443, "smtp": 25, "smtps": 465}.get(parts.scheme, 80)


def _checked(host: str, port: int, where: str, local: bool) -> str:
    """The address to connect to; `NotAllowed` for one that only this machine can reach, without the word for it."""
    return check_host(
        host, port, where=where, local=local, remedy=f"for one on this machine write {_LOCAL} before it."
    )


def _speaks_for_itself(host: str) -> bool:
    """Known without asking anybody where it is."""
    return host == "localhost" or ":" in host or host.replace(".", "").isdigit()


def _section(text: str) -> Any:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text[:_SLACK_TEXT]}}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _tag(url: str) -> str:
    """Tells two secrets of one host apart without showing them; the same in every process."""
    return sha256(url.encode()).hexdigest()[:6]
