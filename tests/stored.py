"""Stored bytes as they lie there, past the product: in the artifact directory or in the bucket of the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from django.conf import settings

from scheduling.services import artifact_files

# Of tests that are made with each store: one that is about the directory alone, and one about a bucket.
in_directory = pytest.mark.parametrize("each_store", ["directory"], indirect=True)

in_bucket = pytest.mark.parametrize("each_store", ["bucket"], indirect=True)


def content(sha256: str) -> bytes | None:
    """The blob's bytes; None when it is not there."""
    if not settings.STORE_BUCKET:
        path = artifact_files.blob(sha256)
        return path.read_bytes() if path.exists() else None
    try:
        found = _client().get_object(Bucket=settings.STORE_BUCKET, Key=_key(_place(sha256)))
    except ClientError as refused:
        if refused.response["Error"]["Code"] != "NoSuchKey":
            raise
        return None
    return bytes(found["Body"].read())


def name() -> str:
    """What the object or file holds that tells whose the store is."""
    if not settings.STORE_BUCKET:
        return (settings.ARTIFACT_DIR / artifact_files.NAME).read_text()
    found = _client().get_object(Bucket=settings.STORE_BUCKET, Key=_key(Path(artifact_files.NAME)))
    return bytes(found["Body"].read()).decode()


def spoil(sha256: str, bytes_now: bytes | None) -> None:
    """What lies there under the blob's name is these bytes, or with None nothing."""
    if bytes_now is None:
        artifact_files.remove_blob(sha256)
        return
    if not settings.STORE_BUCKET:
        artifact_files.blob(sha256).unlink(missing_ok=True)
    lay(_place(sha256), bytes_now)


def lay(path: Path, bytes_now: bytes) -> None:
    """These bytes lie at the path from the store's root on: in the directory, where no bucket keeps them."""
    if settings.STORE_BUCKET and (path.parts[0] == "objects" or path.name == artifact_files.NAME):
        _client().put_object(Bucket=settings.STORE_BUCKET, Key=_key(path), Body=bytes_now)
        return
    (settings.ARTIFACT_DIR / path).parent.mkdir(parents=True, exist_ok=True)
    (settings.ARTIFACT_DIR / path).write_bytes(bytes_now)


def _place(sha256: str) -> Path:
    return artifact_files.blob(sha256).relative_to(settings.ARTIFACT_DIR)


def _key(path: Path) -> str:
    return f"{settings.STORE_PREFIX}/{path.as_posix()}".removeprefix("/")


_made: dict[str, Any] = {}


def _client() -> Any:
    at = settings.STORE_ENDPOINT
    if at not in _made:
        _made[at] = boto3.client("s3", endpoint_url=at, region_name=settings.STORE_REGION)
    return _made[at]
