"""Notices to servers on loopback: grouped, silenced, tried again, and never lost."""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_string
from email.header import decode_header, make_header
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dure.adapters.notify.channels import channel_of
from dure.adapters.notify.notifier import GATHER_S, GIVE_UP_S, REPEAT_S, Notifier
from dure.adapters.notify.outbox import Outbox, backoff_s
from dure.model.answer import FleetStatus, Totals, Trouble
from dure.model.errors import InvalidInput, NotAllowed, Permanent
from dure.watch.notices import Letter, Notice, Risky, Silence, notices_of
from tests.unit.adapters.notify.servers import Hook, Post, running

LOST = Notice("cluster/seoul", "seoul", "seoul does not report", "dure doctor")
HELD = Notice("workload/train", "seoul", "train waits for 3 h")
OTHER = Notice("cluster/us", "us", "us <does> not report & more")


class Scene:
    """A notifier whose world and clock are the test's."""

    def __init__(self, folder: Path, *addresses: str) -> None:
        self.folder, self.addresses = folder, addresses
        self.now_s = 1_000.0
        self.standing: list[Notice] = []
        self.notifier = self.started()

    def started(self) -> Notifier:
        self.outbox = Outbox(self.folder / "notify.db")
        channels = [channel_of(address) for address in self.addresses]
        return Notifier("demo", self.outbox, channels, lambda: list(self.standing), lambda: self.now_s)

    def restart(self) -> None:
        self.notifier.stop()
        self.notifier = self.started()

    def after(self, seconds: float) -> None:
        self.now_s += seconds
        self.notifier.turn()


@pytest.fixture
def hook() -> Iterator[Hook]:
    server = Hook()
    with running(server):
        yield server


@pytest.fixture
def post() -> Iterator[Post]:
    server = Post()
    with running(server):
        yield server


def test_what_begins_together_is_one_letter_for_each_group_and_its_end_is_told_once(
    hook: Hook, tmp_path: Path
) -> None:
    scene = Scene(tmp_path, hook.url)
    scene.standing = [LOST, HELD, OTHER]
    scene.after(0)
    assert hook.taken == []
    scene.after(GATHER_S)
    assert [(body["group"], len(body["notices"])) for _, body in hook.taken] == [("seoul", 2), ("us", 1)]
    assert hook.taken[0][1]["title"] == "[demo] seoul: 2 to look at"
    for _ in range(3):
        scene.after(60)
    assert len(hook.taken) == 2
    scene.standing = [OTHER]
    scene.after(60)
    scene.after(60)
    assert [body["title"] for _, body in hook.taken[2:]] == ["[demo] seoul: 2 over"]
    scene.notifier.stop()


def test_what_is_over_before_anybody_was_told_is_never_told(hook: Hook, tmp_path: Path) -> None:
    scene = Scene(tmp_path, hook.url)
    scene.standing = [LOST]
    scene.after(0)
    scene.standing = []
    scene.after(GATHER_S)
    scene.after(GATHER_S)
    assert hook.taken == []
    scene.notifier.stop()


def test_what_lasts_is_told_again_after_hours_also_by_a_restarted_process(hook: Hook, tmp_path: Path) -> None:
    scene = Scene(tmp_path, hook.url)
    scene.standing = [LOST]
    scene.after(0)
    scene.after(GATHER_S)
    scene.restart()
    scene.after(60)
    assert len(hook.taken) == 1
    scene.after(REPEAT_S)
    assert len(hook.taken) == 2
    scene.standing = []
    scene.restart()
    scene.after(60)
    assert hook.taken[-1][1]["title"].endswith("1 over")
    scene.notifier.stop()


def test_a_letter_that_fails_waits_on_disk_is_tried_ever_more_rarely_and_keeps_its_id(
    hook: Hook, tmp_path: Path
) -> None:
    hook.answers = [503, 429, 500]
    scene = Scene(tmp_path, hook.url)
    scene.standing = [LOST]
    scene.after(0)
    with capture_logs():
        scene.after(GATHER_S)
        scene.after(backoff_s(0) - 1)
        assert len(hook.taken) == 1
        scene.restart()
        scene.after(1)
        assert len(hook.taken) == 2
        scene.after(backoff_s(1))
        scene.after(backoff_s(2))
    assert len(hook.taken) == 4
    assert len({headers["idempotency-key"] for headers, _ in hook.taken}) == 1
    assert scene.outbox.waiting() == ()
    scene.notifier.stop()


def test_a_channel_that_is_away_does_not_hold_up_the_others_and_is_given_up_after_days(
    hook: Hook, tmp_path: Path
) -> None:
    scene = Scene(tmp_path, "local+http://127.0.0.1:9/nobody", hook.url)
    scene.standing = [LOST]
    scene.after(0)
    with capture_logs() as logs:
        scene.after(GATHER_S)
        assert len(hook.taken) == 1
        (waiting,) = scene.outbox.waiting()
        assert waiting.tries == 1
        assert "no answer" in waiting.trouble
        scene.standing = []
        scene.after(GIVE_UP_S)
        scene.after(GIVE_UP_S)
    assert scene.outbox.waiting() == ()
    assert sum(log["log_level"] == "error" for log in logs) == 2
    scene.notifier.stop()


def test_a_channel_that_refuses_for_good_is_not_asked_again(hook: Hook, tmp_path: Path) -> None:
    hook.answers = [404]
    scene = Scene(tmp_path, hook.url)
    scene.standing = [LOST]
    scene.after(0)
    with capture_logs() as logs:
        scene.after(GATHER_S)
        scene.after(900)
    assert len(hook.taken) == 1
    assert [log["event"] for log in logs] == ["a notice is given up"]
    scene.notifier.stop()


def test_what_is_silenced_is_not_told_until_the_silence_ends(hook: Hook, tmp_path: Path) -> None:
    scene = Scene(tmp_path, hook.url)
    scene.outbox.silence(Silence("cluster/*", scene.now_s + 3600, "maintenance"))
    scene.standing = [LOST, HELD]
    scene.after(0)
    scene.after(GATHER_S)
    assert [[one["key"] for one in body["notices"]] for _, body in hook.taken] == [["workload/train"]]
    scene.after(3600)
    scene.after(GATHER_S)
    assert [one["key"] for one in hook.taken[-1][1]["notices"]] == ["cluster/seoul"]
    scene.outbox.silence(Silence("cluster/seoul", scene.now_s + 3600))
    scene.standing = [HELD]
    scene.after(60)
    assert len(hook.taken) == 2
    assert "cluster/seoul" not in scene.outbox.told()
    scene.notifier.stop()


def test_slack_gets_escaped_blocks_and_at_most_as_many_as_it_takes(hook: Hook) -> None:
    channel = channel_of(hook.url.replace("local+", "local+slack+"))
    many = tuple(Notice(f"workload/{n}", "us", f"{n} waits") for n in range(60))
    channel.deliver(Letter("id", "demo", "us", 1.0, (OTHER, *many)))
    ((_, body),) = hook.taken
    assert body["text"] == "[demo] us: 61 to look at"
    assert len(body["blocks"]) == 50
    assert body["blocks"][1]["text"]["text"] == "Now: us &lt;does&gt; not report &amp; more"
    assert "13 more" in body["blocks"][-1]["text"]["text"]


def test_mail_goes_out_with_subject_reader_and_what_to_do(post: Post, tmp_path: Path) -> None:
    post.refuse = ["451 later"]
    scene = Scene(tmp_path, post.address)
    scene.standing = [LOST]
    scene.after(0)
    with capture_logs():
        scene.after(GATHER_S)
    assert post.letters == []
    scene.after(backoff_s(0))
    (letter,) = (message_from_string(text) for text in post.letters)
    assert str(make_header(decode_header(letter["Subject"]))) == "[demo] seoul: 1 to look at"
    assert (letter["To"], letter["From"]) == ("ops@example.org", "dure@example.org")
    assert "dure doctor" in str(letter.get_payload())
    scene.notifier.stop()


def test_a_reader_that_the_mail_server_does_not_know_is_given_up(post: Post) -> None:
    post.refuse = ["550 nobody here"]
    with pytest.raises(Permanent, match="does not know the reader"):
        channel_of(post.address).deliver(Letter("id", "demo", "us", 1.0, (LOST,)))


@pytest.mark.parametrize("address", ["ftp://x/y", "slack+smtp://x/a@b", "hello", "smtp://host/nobody", "https://"])
def test_an_address_that_is_none_is_refused_with_examples(address: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        channel_of(address)
    assert "smtp://HOST" in refused.value.remedy


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:9000/hook",
        "https://localhost/hook",
        "slack+http://169.254.169.254/latest/meta-data",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://0.0.0.0/",
        "smtp://127.0.0.1/ops@example.org",
    ],
)
def test_an_address_of_this_machine_or_its_link_is_refused_without_the_word_for_it(address: str) -> None:
    with pytest.raises(NotAllowed) as refused:
        channel_of(address)
    assert "local+" in refused.value.remedy
    assert channel_of(f"local+{address}").name


@pytest.mark.parametrize("address", ["http://inner.example/hook", "smtp://inner.example/ops@example.org"])
def test_a_name_that_leads_to_this_machine_when_a_letter_goes_out_is_refused_and_given_up(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, address)
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("169.254.169.254", 80))])
    scene.standing = [LOST]
    scene.after(0)
    with capture_logs() as logs:
        scene.after(GATHER_S)
    assert [one["event"] for one in logs] == ["a notice is given up"]
    assert "169.254.169.254" in logs[0]["error"]
    scene.notifier.stop()


def test_a_letter_goes_to_the_address_that_was_checked_under_the_name_that_was_written(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server that answers otherwise the second time leads nowhere: it is asked once."""
    asked = []

    def resolve(host: str, port: int, *_: object, **__: object) -> list[object]:
        asked.append(host)
        return [(2, 1, 6, "", ("127.0.0.1", port))]

    channel = channel_of(f"local+http://ops.example:{hook.server_port}/hook")
    monkeypatch.setattr("socket.getaddrinfo", resolve)
    channel.deliver(Letter("id", "demo", "us", 1.0, (LOST,)))
    assert len(hook.taken) == 1
    assert asked.count("ops.example") == 1


def test_names_of_channels_show_no_secrets() -> None:
    for address in ("slack+https://hooks.slack.com/services/SECRET", "smtp://me:SECRET@mail/ops@example.org"):
        assert "SECRET" not in channel_of(address).name


def test_notices_come_from_troubles_and_from_high_risks() -> None:
    status = FleetStatus(
        "demo", 1.0, (), Totals(), troubles=(Trouble("x waits", workload="x"), Trouble("y is away", cluster="y"))
    )
    risks = [Risky("search", "chat", 0.4, 0.9), Risky("search", "embed", 0.01, 0.1)]
    assert [one.key for one in notices_of(status, risks)] == ["cluster/y", "risk/chat", "workload/x"]
