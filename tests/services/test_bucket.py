"""Blobs in a bucket: how large ones come, what a cut leaves, how they are read, and a bucket that refuses."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from django.conf import settings

from scheduling.services import artifact_files, blob_store, blobs_in_bucket, bucket_object, upkeep
from scheduling.services.artifact_files import CorruptModel, NoSpace, StoreAway, StoreRefused
from scheduling.services.blobs_in_bucket import MIB, Bucket, part_length
from tests import builders as b
from tests import stored

pytestmark = pytest.mark.usefixtures("bucket")
LEAST_PART = 5 * MIB  # no bucket takes smaller ones, but the last


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def key_of(content: bytes) -> str:
    return f"lab/one/objects/{sha(content)[:2]}/{sha(content)[2:]}"


def laid(folder: Path, content: bytes) -> list[tuple[Path, str]]:
    """The content as a file to be kept."""
    path = folder / sha(content)[:12]
    path.write_bytes(content)
    return [(path, sha(content))]


@pytest.fixture
def large(monkeypatch) -> bytes:
    """A content of three parts."""
    monkeypatch.setattr(blobs_in_bucket, "PART", LEAST_PART)
    monkeypatch.setattr(blobs_in_bucket, "PARTS_AT_A_TIME", 1)
    return b"".join(bytes([n]) * LEAST_PART for n in range(2)) + b"the end"


class Calls:
    """The product's client, with what is asked of it counted; ``fails`` has what an operation comes to instead."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.made: list[tuple[str, dict[str, Any]]] = []
        self.fails: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **about: Any) -> Any:
            self.made.append((name, about))
            if name in self.fails and (failure := self.fails[name](len(self.of(name)))) is not None:
                raise failure
            return getattr(self.client, name)(*args, **about)

        return call

    def of(self, name: str) -> list[dict[str, Any]]:
        return [about for made, about in self.made if made == name]


@pytest.fixture
def calls(monkeypatch) -> Calls:
    store = blob_store.store()
    assert isinstance(store, Bucket)
    counted = Calls(store._client)
    monkeypatch.setattr(store, "_client", counted)
    return counted


def refusal(code: str, operation: str = "PutObject") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": ""}}, operation)


# ---------------------------------------------------------------- how blobs come


def test_a_small_file_is_one_object_whose_digest_the_server_is_told(calls, s3, tmp_path):
    blob_store.store().keep(laid(tmp_path, b"abc"))
    (put,) = calls.of("put_object")
    assert put["ChecksumSHA256"] == base64.b64encode(hashlib.sha256(b"abc").digest()).decode()
    assert s3.client.get_object(Bucket=settings.STORE_BUCKET, Key=key_of(b"abc"))["Body"].read() == b"abc"


def test_what_is_there_is_not_sent_again_unless_it_is_damaged(calls, tmp_path):
    store = blob_store.store()
    store.keep(laid(tmp_path, b"abc"))
    store.keep(laid(tmp_path, b"abc"))
    assert len(calls.of("put_object")) == 1
    stored.spoil(sha(b"abc"), b"abX")
    store.keep(laid(tmp_path, b"abc"), anew=[sha(b"abc")])
    assert stored.content(sha(b"abc")) == b"abc"
    stored.spoil(sha(b"abc"), b"ab")
    store.keep(laid(tmp_path, b"abc"))
    assert stored.content(sha(b"abc")) == b"abc"


def test_a_large_file_goes_in_parts_each_with_its_digest(calls, large, tmp_path):
    blob_store.store().keep(laid(tmp_path, large))
    sent = {each["PartNumber"]: each["ChecksumSHA256"] for each in calls.of("upload_part")}
    pieces = [large[:LEAST_PART], large[LEAST_PART : 2 * LEAST_PART], large[2 * LEAST_PART :]]
    digests = [base64.b64encode(hashlib.sha256(piece).digest()).decode() for piece in pieces]
    assert sent == dict(enumerate(digests, 1))
    assert calls.of("create_multipart_upload")[0]["ChecksumAlgorithm"] == "SHA256"
    assert stored.content(sha(large)) == large


def test_one_that_was_cut_off_goes_on_with_the_parts_that_had_come(calls, large, tmp_path):
    files = laid(tmp_path, large)
    calls.fails["upload_part"] = lambda count: KeyboardInterrupt() if count == 2 else None
    with pytest.raises(KeyboardInterrupt):
        blob_store.store().keep(files)
    assert blob_store.store().sizes([sha(large)]) == {}
    calls.fails.clear()
    calls.made.clear()
    blob_store._bucket.cache_clear()  # as another process has it, after a restart
    again = blob_store.store()
    counted = Calls(again._client)
    again._client = counted
    again.keep(files)
    assert [each["PartNumber"] for each in counted.of("upload_part")] == [2, 3]
    assert counted.of("create_multipart_upload") == []
    assert stored.content(sha(large)) == large


def test_a_part_that_came_damaged_is_sent_again(calls, large, s3, tmp_path):
    begun = s3.client.create_multipart_upload(Bucket=settings.STORE_BUCKET, Key=key_of(large),
                                              ChecksumAlgorithm="SHA256")  # fmt: skip
    s3.client.upload_part(Bucket=settings.STORE_BUCKET, Key=key_of(large), UploadId=begun["UploadId"], PartNumber=1,
                          Body=b"x" * LEAST_PART, ChecksumAlgorithm="SHA256")  # fmt: skip
    blob_store.store().keep(laid(tmp_path, large))
    assert [each["PartNumber"] for each in calls.of("upload_part")] == [1, 2, 3]
    assert stored.content(sha(large)) == large


@pytest.mark.parametrize("content", [b"abc", None])
def test_bytes_that_are_not_what_their_name_says_never_have_it(large, s3, tmp_path, content):
    meant = content or large
    path = tmp_path / "changed"
    path.write_bytes(meant[:-1] + b"X")
    with pytest.raises(StoreAway, match=r"is not what its sha256 .* says any more"):
        blob_store.store().keep([(path, sha(meant))])
    assert blob_store.store().all() == {}
    assert "Uploads" not in s3.client.list_multipart_uploads(Bucket=settings.STORE_BUCKET)


def test_of_two_that_store_the_same_the_second_has_nothing_to_do(calls, large, tmp_path):
    files = laid(tmp_path, large)

    def the_other_ends_it(count: int) -> None:
        if count == 1:
            del calls.fails["complete_multipart_upload"]
            about = calls.of("complete_multipart_upload")[0]
            calls.client.complete_multipart_upload(**about)

    calls.fails["complete_multipart_upload"] = the_other_ends_it
    blob_store.store().keep(files)
    assert stored.content(sha(large)) == large


def test_an_upload_that_somebody_ended_is_told_and_not_taken_for_done(calls, large, tmp_path):
    calls.fails["complete_multipart_upload"] = lambda _: refusal("NoSuchUpload", "CompleteMultipartUpload")
    with pytest.raises(StoreAway, match="was ended by somebody: try again"):
        blob_store.store().keep(laid(tmp_path, large))


def test_parts_grow_where_ten_thousand_of_the_least_were_too_few():
    assert part_length(16 * MIB + 1) == 16 * MIB
    assert part_length(160_000 * MIB) == 16 * MIB
    assert part_length(160_000 * MIB + 1) == 17 * MIB
    assert 10_000 * part_length(2 * 1024**4) >= 2 * 1024**4


@pytest.mark.django_db
def test_uploads_in_parts_that_nobody_finished_are_ended(large, s3, monkeypatch):
    b.people()
    s3.client.create_multipart_upload(Bucket=settings.STORE_BUCKET, Key=key_of(large))
    s3.client.create_multipart_upload(Bucket=settings.STORE_BUCKET, Key="lab/two/objects/ab/cd")

    def under_way() -> list[str]:
        return [each["Key"] for each in s3.client.list_multipart_uploads(Bucket=settings.STORE_BUCKET)["Uploads"]]

    monkeypatch.setattr(upkeep, "ABANDONED_S", 40 * 365 * 86_400.0)  # this server says that all were begun in 2010
    upkeep.collect_uploads(b.NOON)
    assert sorted(under_way()) == [key_of(large), "lab/two/objects/ab/cd"]
    monkeypatch.setattr(upkeep, "ABANDONED_S", 86_400.0)
    upkeep.collect_uploads(b.NOON)
    assert under_way() == ["lab/two/objects/ab/cd"]


# ---------------------------------------------------------------- how they are read


def test_a_range_is_fetched_from_where_it_begins(calls):
    stored.spoil(sha(b"0123456789"), b"0123456789")
    with artifact_files.open_blob(sha(b"0123456789")) as file:
        assert (file.seek(7), file.read(2), file.seek(0, 2), file.read()) == (7, b"78", 10, b"")
    assert [each["Range"] for each in calls.of("get_object")] == ["bytes=7-"]


def test_a_stream_that_breaks_off_is_taken_up_where_it_was(calls):
    content = bytes(range(256)) * 2000
    stored.spoil(sha(content), content)
    calls.fails["get_object"] = lambda count: refusal("SlowDown", "GetObject") if count == 1 else None
    with artifact_files.open_blob(sha(content)) as file:
        first = file.read(100_000)
        file.raw._body.close()  # the connection is gone
        assert first + file.read() == content


def test_one_that_breaks_off_again_and_again_is_told(calls):
    stored.spoil(sha(b"abc"), b"abc")
    calls.fails["get_object"] = lambda _: refusal("SlowDown", "GetObject")
    with artifact_files.open_blob(sha(b"abc")) as file, pytest.raises(StoreAway, match=r"GetObject \(SlowDown\)"):
        file.read()
    assert len(calls.of("get_object")) == bucket_object.TRIES


def test_missing_bytes_are_missing_and_a_store_that_does_not_answer_is_not(calls):
    with pytest.raises(FileNotFoundError):
        artifact_files.open_blob(sha(b"abc"))
    calls.fails["head_object"] = lambda _: refusal("500", "HeadObject")
    with pytest.raises(StoreAway):
        artifact_files.open_blob(sha(b"abc"))


def test_of_a_models_tensors_only_the_header_is_fetched(calls):
    content = b.tensors(1)
    stored.spoil(sha(content), content)
    path = artifact_files.made() / "same"
    path.write_bytes(content)
    assert artifact_files.tensors_of_blob(sha(content)) == artifact_files.tensors_of(path)
    for wrong in (content[:-1], b"", b"\xff" * 40):
        stored.spoil(sha(content), wrong)
        with pytest.raises(CorruptModel):
            artifact_files.tensors_of_blob(sha(content))


def test_objects_of_others_are_no_blobs():
    stored.spoil(sha(b"abc"), b"abc")
    stored.lay(Path("objects/notes.txt"), b"mine")
    stored.lay(Path("objects/ab/short"), b"mine")
    assert artifact_files.blobs() == {sha(b"abc"): 3}


# ---------------------------------------------------------------- a bucket that refuses, is full or away


@pytest.mark.parametrize("code", ["QuotaExceeded", "XMinioStorageFull"])
def test_a_full_bucket_is_no_space(calls, tmp_path, code):
    calls.fails["put_object"] = lambda _: refusal(code)
    with pytest.raises(NoSpace, match=f"the artifact store s3://.*/lab/one is full .{code}"):
        blob_store.store().keep(laid(tmp_path, b"abc"))


@pytest.mark.parametrize(
    ("operation", "code", "told"),
    [
        ("head_bucket", "404", "there is no bucket 'bucket-.*': make it, or correct EMEP_STORE_URL"),
        ("head_bucket", "301", "is in another region: set EMEP_STORE_REGION to it"),
        ("head_bucket", "403", "is refused .403.: check the keys, and their rights against docs/artifacts.md"),
        ("put_object", "AccessDenied", "PutObject in s3://.* is refused .AccessDenied.: check the keys"),
        ("delete_object", "AccessDenied", "is refused .AccessDenied.: check the keys"),
        ("list_objects_v2", "AccessDenied", "is refused .AccessDenied.: check the keys"),
        ("list_multipart_uploads", "AccessDenied", "is refused .AccessDenied.: check the keys"),
        ("put_object", "QuotaExceeded", "is full"),
    ],
)
def test_a_bucket_that_cannot_be_used_is_told_with_what_to_do(calls, operation, code, told):
    calls.fails[operation] = lambda _: refusal(code, "".join(word.title() for word in operation.split("_")))
    with pytest.raises(StoreRefused, match=told):
        artifact_files.check_store()


def test_without_keys_it_is_said_where_they_are_looked_for(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    blobs_in_bucket._client.cache_clear()
    blob_store._bucket.cache_clear()
    try:
        with pytest.raises(
            StoreRefused, match=r"no keys for s3://.*: give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ):
            artifact_files.check_store()
    finally:
        blobs_in_bucket._client.cache_clear()
        blob_store._bucket.cache_clear()


def test_one_that_does_not_answer_is_away_and_takes_nothing(settings, tmp_path):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as nobody:
        settings.STORE_ENDPOINT = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    assert artifact_files.can_store()  # nobody has asked yet
    with pytest.raises(
        StoreAway, match=r"does not answer .EndpointConnectionError.: .* looks whether it is up"
    ) as told:
        artifact_files.check_store()
    assert not isinstance(told.value, StoreRefused)
    until = time.monotonic() + 60
    while artifact_files.can_store():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_whether_it_answers_is_asked_anew_after_a_while(monkeypatch):
    answers, asked = iter([False, True]), threading.Semaphore(0)
    at = [0.0]
    monkeypatch.setattr(blobs_in_bucket.time, "monotonic", lambda: at[0])

    def ask() -> bool:
        asked.release()
        return next(answers)

    question = blobs_in_bucket._Asked(ask)
    for now, told in ((0.0, False), (14.9, False), (15.1, True)):
        at[0] = now
        question.answer()
        if now != 14.9:
            assert asked.acquire(timeout=30)
        question.thread.join(30)
        assert question.answer() is told


def test_a_bucket_that_can_be_used_is_left_as_it_was():
    artifact_files.check_store()
    assert artifact_files.blobs() == {}
    assert artifact_files.store_name() is None
