"""Where artifacts are kept, as the environment says it: a directory, or a bucket of S3 or of what speaks like it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9!_.*'()-]+(/[A-Za-z0-9!_.*'()-]+)*")
_TRUTH = {"": None, "1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False,
          "off": False}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The bucket of EMEP_STORE_URL, "" for the artifact directory, and how it is spoken to."""

    bucket: str = ""
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    path_style: bool = False


def read(url: str, endpoint: str, region: str, path_style: str) -> StoreAddress:
    """The address in EMEP_STORE_URL, _ENDPOINT, _REGION and _PATH_STYLE; ImproperlyConfigured names the one that is
    wrong and says what it must be. Path style is the default where an endpoint is given."""
    others = {"EMEP_STORE_ENDPOINT": endpoint, "EMEP_STORE_REGION": region, "EMEP_STORE_PATH_STYLE": path_style}
    if not url:
        if given := [name for name, value in others.items() if value]:
            raise ImproperlyConfigured(
                f"{given[0]} needs EMEP_STORE_URL, like s3://bucket/prefix; set it, or leave both"
            )
        return StoreAddress()
    bucket, prefix = _bucket_in(url)
    if path_style.lower() not in _TRUTH:
        raise ImproperlyConfigured(f"EMEP_STORE_PATH_STYLE must be 1 or 0, not {path_style!r}")
    if endpoint:
        _check_endpoint(endpoint)
    if region and not re.fullmatch(r"[A-Za-z0-9-]+", region):
        raise ImproperlyConfigured(f"EMEP_STORE_REGION must be the name of a region like eu-central-1, not {region!r}")
    if find_spec("boto3") is None:
        raise ImproperlyConfigured(
            "EMEP_STORE_URL needs boto3: .venv/bin/pip install -r requirements/s3.txt -c requirements/constraints.txt"
        )
    style = _TRUTH[path_style.lower()]
    return StoreAddress(bucket, prefix, endpoint, region, bool(endpoint) if style is None else style)


def _bucket_in(url: str) -> tuple[str, str]:
    like = "EMEP_STORE_URL must be like s3://bucket/prefix"
    scheme, _, rest = url.partition("://")
    if scheme != "s3":
        raise ImproperlyConfigured(f"{like}, not {url[:200]!r}; leave it out to keep artifacts in EMEP_ARTIFACT_DIR")
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.strip("/")
    if "@" in bucket:  # keys, perhaps: they are not repeated
        raise ImproperlyConfigured(
            f"{like}, without keys: boto3 finds those in AWS_ACCESS_KEY_ID and _SECRET_ACCESS_KEY"
        )
    if not bucket:
        raise ImproperlyConfigured(f"{like}: {url[:200]!r} names no bucket")
    if not _BUCKET.fullmatch(bucket) or ".." in bucket:
        words = "a bucket's name is 3 to 63 lower-case letters, digits, dots and dashes"
        raise ImproperlyConfigured(f"{like}: {words}, not {bucket[:100]!r}")
    if prefix and (not _PREFIX.fullmatch(prefix) or len(prefix) > 512 or {".", ".."} & set(prefix.split("/"))):
        words = "a prefix is at most 512 letters, digits and !_.*'()- between single slashes"
        raise ImproperlyConfigured(f"{like}: {words}, not {prefix[:100]!r}")
    return bucket, prefix


def _check_endpoint(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        good = good and "@" not in parts.netloc
    except ValueError:
        good = False
    if not good:
        raise ImproperlyConfigured(
            "EMEP_STORE_ENDPOINT must be an address like https://minio.example:9000, without keys; "
            "leave it out for Amazon's"
        )
