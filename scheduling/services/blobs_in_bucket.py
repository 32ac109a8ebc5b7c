"""Blobs in a bucket of S3 or of what speaks like it, by sha256: whole and compared before they have their name."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import io
import os
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, cast

import boto3
from botocore.config import Config

from scheduling.services.blob_store import NAME, NoSpace, StoreAway, StoreRefused, Words, a_few_at_a_time, tensors_of
from scheduling.services.bucket_object import StoredObject
from scheduling.services.bucket_refusals import refusal, told

MIB = 1024 * 1024
# A larger file goes in parts of so many bytes, so many at a time. A bucket takes 10,000 parts of one object.
PART = 16 * MIB
MOST_PARTS = 10_000
PARTS_AT_A_TIME = 4
REQUESTS_AT_A_TIME = 16
# What has a longer header is no safetensors.
LONGEST_HEADER = 100_000_000
# Whether the bucket answers is asked anew after so many seconds.
ASKED_EVERY_S = 15.0


@functools.lru_cache(maxsize=4)
def _client(_process: int, endpoint: str, region: str, path_style: bool) -> Any:
    """What speaks to the server, by many threads at once; a connection is no forked process's too."""
    return boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint or None,
        region_name=region or None,
        config=Config(
            connect_timeout=5,
            read_timeout=60,
            retries={"mode": "standard", "max_attempts": 4},
            max_pool_connections=2 * REQUESTS_AT_A_TIME,
            s3={"addressing_style": "path" if path_style else "auto"},
            # Checksums of ours go along; others than Amazon's refuse those that boto3 would add.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


class Bucket:
    """The objects ``PREFIX/objects/ab/cdef...`` of a bucket. boto3 finds keys where it always does."""

    def __init__(self, bucket: str, prefix: str, *, endpoint: str, region: str, path_style: bool) -> None:
        self._bucket = bucket
        self._before = f"{prefix}/" if prefix else ""
        self._url = f"s3://{bucket}/{prefix}".rstrip("/")
        self._asked = _Asked(self._answers)
        with self._told():
            self._client = _client(os.getpid(), endpoint, region, path_style)

    def words(self) -> Words:
        """How it is spoken of."""
        return Words(
            f"artifact store {self._url}", "is EMEP_STORE_URL the right one?",
            f"the object {self._before}{NAME} of the bucket {self._bucket}",
            "a bucket or a prefix of its own (EMEP_STORE_URL)",
        )  # fmt: skip

    def can_store(self) -> bool:
        """Whether the bucket answered when it was asked last, some seconds ago: nobody waits for it here."""
        return self._asked.answer()

    def _answers(self) -> bool:
        try:
            with self._told():
                self._client.head_bucket(Bucket=self._bucket)
        except (StoreAway, FileNotFoundError, NoSpace):
            return False
        return True

    def sizes(self, digests: Collection[str]) -> dict[str, int]:
        """The size in bytes of each of these blobs that is there."""
        found: dict[str, int] = {}

        def look(sha256: str) -> None:
            with contextlib.suppress(FileNotFoundError), self._told():
                head = self._client.head_object(Bucket=self._bucket, Key=self._key(sha256))
                found[sha256] = head["ContentLength"]

        a_few_at_a_time(look, list(digests), workers=REQUESTS_AT_A_TIME)
        return found

    def opened(self, sha256: str) -> BinaryIO:
        """The blob's bytes, streamed as they are read; FileNotFoundError when it is not there."""
        key = self._key(sha256)
        with self._told():
            size = self._client.head_object(Bucket=self._bucket, Key=key)["ContentLength"]
        blob = StoredObject(size, lambda start: self._body(key, start), self._read)
        return cast(BinaryIO, io.BufferedReader(blob, 64 * 1024))

    def _body(self, key: str, start: int) -> Any:
        with self._told():
            return self._client.get_object(Bucket=self._bucket, Key=key, Range=f"bytes={start}-")["Body"]

    def _read(self, body: Any, most: int) -> bytes:
        with self._told():
            return cast(bytes, body.read(most))

    def tensors(self, sha256: str) -> dict[str, list[object]]:
        """``{name: [dtype, [shape]]}`` of a blob of safetensors; CorruptModel says what is wrong with it.

        Only its header is fetched: it is looked at in a file that has nothing else in it and the blob's length.
        """
        with self.opened(sha256) as blob, tempfile.NamedTemporaryFile() as file:
            size = blob.seek(0, 2)
            blob.seek(0)
            first = blob.read(8)
            length = int.from_bytes(first, "little")
            file.write(first + (blob.read(length) if length <= LONGEST_HEADER else b""))
            file.truncate(size)
            file.flush()
            return tensors_of(Path(file.name))

    def keep(self, files: Sequence[tuple[Path, str]], *, anew: Collection[str] = ()) -> None:
        """The files are blobs; see :class:`BlobStore`. Cut off, it goes on with the parts that had come."""
        paths = {sha256: path for path, sha256 in files}
        here = self.sizes(paths.keys())
        sizes = {sha256: path.stat().st_size for sha256, path in paths.items()}
        wanted = [sha256 for sha256, size in sizes.items() if sha256 in anew or here.get(sha256) != size]
        small = [sha256 for sha256 in wanted if sizes[sha256] <= PART]
        a_few_at_a_time(lambda sha256: self._put(paths[sha256], sha256), small, workers=REQUESTS_AT_A_TIME)
        for sha256 in wanted:
            if sizes[sha256] > PART:
                self._put_in_parts(paths[sha256], sha256, sizes[sha256], replaces=sha256 in anew)

    def _put(self, path: Path, sha256: str) -> None:
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != sha256:
            raise StoreAway(_changed(sha256))
        with self._told():
            self._client.put_object(
                Bucket=self._bucket, Key=self._key(sha256), Body=content,
                ChecksumSHA256=base64.b64encode(bytes.fromhex(sha256)).decode(),
            )  # fmt: skip

    def _put_in_parts(self, path: Path, sha256: str, size: int, *, replaces: bool) -> None:
        key = self._key(sha256)
        length = part_length(size)
        try:
            with self._told():
                upload, come = self._begun(key)
                parts = self._send_parts(path, sha256, length, key, upload, come)
                self._client.complete_multipart_upload(
                    Bucket=self._bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts}
                )
        except FileNotFoundError as over:  # somebody else who stored the same bytes was done first
            if replaces or self.sizes([sha256]).get(sha256) != size:
                raise StoreAway(f"the upload of a blob into {self._url} was ended by somebody: try again") from over

    def _begun(self, key: str) -> tuple[str, dict[int, dict[str, Any]]]:
        """An upload of the object in parts and what has come of it: one that was cut off, or a new one."""
        pages = self._client.get_paginator("list_multipart_uploads").paginate(Bucket=self._bucket, Prefix=key)
        found = [each for page in pages for each in page.get("Uploads", ()) if each["Key"] == key]
        if not found:
            made = self._client.create_multipart_upload(Bucket=self._bucket, Key=key, ChecksumAlgorithm="SHA256")
            return made["UploadId"], {}
        upload = max(found, key=lambda each: each["Initiated"])["UploadId"]
        parts = self._client.get_paginator("list_parts").paginate(Bucket=self._bucket, Key=key, UploadId=upload)
        return upload, {part["PartNumber"]: part for page in parts for part in page.get("Parts", ())}

    def _send_parts(
        self, path: Path, sha256: str, length: int, key: str, upload: str, come: dict[int, dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """What completes the upload: every part is there, and together they are what the digest says."""
        whole = hashlib.sha256()
        done: dict[int, dict[str, Any]] = {}
        under_way: dict[int, Future[dict[str, Any]]] = {}
        with path.open("rb") as file, ThreadPoolExecutor(PARTS_AT_A_TIME) as pool:
            number = 0
            while piece := file.read(length):
                number += 1
                whole.update(piece)
                checksum = base64.b64encode(hashlib.sha256(piece).digest()).decode()
                if number in come and _is_same(come[number], piece, checksum):
                    done[number] = come[number]
                    continue
                if len(under_way) == PARTS_AT_A_TIME:
                    first = min(under_way)
                    done[first] = under_way.pop(first).result()
                under_way[number] = pool.submit(
                    self._client.upload_part, Bucket=self._bucket, Key=key, UploadId=upload, PartNumber=number,
                    Body=piece, ChecksumSHA256=checksum,
                )  # fmt: skip
            done |= {each: sent.result() for each, sent in under_way.items()}
        if whole.hexdigest() != sha256:
            self._client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload)
            raise StoreAway(_changed(sha256))
        names = ("ETag", "ChecksumSHA256")
        return [
            {"PartNumber": each, **{name: done[each][name] for name in names if name in done[each]}}
            for each in sorted(done)
        ]

    def all(self) -> dict[str, int]:
        """Every blob that is there, with its size in bytes; other objects count for nothing."""
        before = f"{self._before}objects/"
        found: dict[str, int] = {}
        with self._told():
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=before):
                for each in page.get("Contents", ()):
                    sha256 = each["Key"].removeprefix(before).replace("/", "", 1)
                    if self._key(sha256) == each["Key"] and len(sha256) == 64:
                        found[sha256] = each["Size"]
        return found

    def remove(self, digests: Collection[str]) -> None:
        """These blobs are not there any more."""

        def drop(sha256: str) -> None:
            with contextlib.suppress(FileNotFoundError), self._told():
                self._client.delete_object(Bucket=self._bucket, Key=self._key(sha256))

        a_few_at_a_time(drop, list(digests), workers=REQUESTS_AT_A_TIME)

    def name(self) -> str | None:
        """By what name the database of these objects knows them; None before they were given one."""
        with contextlib.suppress(FileNotFoundError), self._told():
            kept = self._client.get_object(Bucket=self._bucket, Key=f"{self._before}{NAME}")["Body"].read()
            return kept.decode().strip() or None
        return None

    def give_name(self, name: str) -> None:
        """They have that name from now on."""
        with self._told():
            self._client.put_object(Bucket=self._bucket, Key=f"{self._before}{NAME}", Body=f"{name}\n".encode())

    def tidy(self, *, older_than_s: float) -> int:
        """Uploads in parts that were begun longer ago are ended, and their parts gone; returns how many."""
        before = datetime.now(UTC) - timedelta(seconds=older_than_s)
        pages = self._client.get_paginator("list_multipart_uploads")
        ended = 0
        with self._told():
            for page in pages.paginate(Bucket=self._bucket, Prefix=f"{self._before}objects/"):
                for each in page.get("Uploads", ()):
                    if each["Initiated"] < before:
                        self._client.abort_multipart_upload(
                            Bucket=self._bucket, Key=each["Key"], UploadId=each["UploadId"]
                        )
                        ended += 1
        return ended

    def _key(self, sha256: str) -> str:
        return f"{self._before}objects/{sha256[:2]}/{sha256[2:]}"

    def _told(self) -> contextlib.AbstractContextManager[None]:
        return told(self._bucket, self._url)

    def check(self) -> None:
        """StoreAway says why the bucket can't be used: it is looked at, and an object written, read and removed."""
        content = f"{datetime.now(UTC).isoformat()} {id(self)}".encode()
        key = f"{self._before}probe-{hashlib.sha256(content).hexdigest()[:16]}"
        try:
            with self._told():
                self._client.head_bucket(Bucket=self._bucket)
        except FileNotFoundError as none:  # the reply to HEAD has no other word for it
            raise refusal("NoSuchBucket", "HeadBucket", self._bucket, self._url) from none
        try:
            with self._told():
                self._client.put_object(Bucket=self._bucket, Key=key, Body=content)
                same = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read() == content
                self._client.delete_object(Bucket=self._bucket, Key=key)
                self._client.list_objects_v2(Bucket=self._bucket, Prefix=key)
                self._client.list_multipart_uploads(Bucket=self._bucket, Prefix=key)
        except FileNotFoundError:
            same = False
        except NoSpace as full:
            raise StoreRefused(str(full)) from full
        if not same:
            raise StoreRefused(f"what is written into {self._url} can't be read again: use another store")


class _Asked:
    """A question whose answer takes a while: the last one is told, and a new one asked for when that is old."""

    thread: threading.Thread

    def __init__(self, ask: Callable[[], bool]) -> None:
        self._ask = ask
        self._answer, self._at = True, -ASKED_EVERY_S
        self._lock = threading.Lock()

    def answer(self) -> bool:
        """The newest answer; True before there is one."""
        with self._lock:
            if time.monotonic() - self._at >= ASKED_EVERY_S:
                self._at = time.monotonic()
                self.thread = threading.Thread(target=self._renew, daemon=True)
                self.thread.start()
        return self._answer

    def _renew(self) -> None:
        self._answer = self._ask()


def part_length(size: int) -> int:
    """Of how many bytes each part of a file of ``size`` bytes is, but the last."""
    whole_mib = -(-size // (MOST_PARTS * MIB)) * MIB
    return max(PART, whole_mib)


def _is_same(part: dict[str, Any], piece: bytes, checksum: str) -> bool:
    """Whether the part that has come is this piece; not every store lists checksums, and an ETag is an MD5 or nothing
    that can be known."""
    if part.get("Size") != len(piece):
        return False
    if "ChecksumSHA256" in part:
        return bool(part["ChecksumSHA256"] == checksum)
    return bool(part["ETag"].strip('"') == hashlib.md5(piece, usedforsecurity=False).hexdigest())


def _changed(sha256: str) -> str:
    return f"a file is not what its sha256 {sha256} says any more: its disk may be damaged; send it again"
