"""What a bucket refuses, in our words: missing, full, wrong as it is set up, or away."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from scheduling.services.blob_store import NoSpace, StoreAway, StoreRefused

GONE = ("404", "NoSuchKey", "NotFound", "NoSuchUpload")
ELSEWHERE = ("301", "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException")
DENIED = ("401", "403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken")
FULL = ("QuotaExceeded", "XMinioStorageFull", "XAmzStorageFull", "InsufficientStorage", "507")


@contextlib.contextmanager
def told(bucket: str, url: str) -> Iterator[None]:
    """What is asked of the bucket meanwhile fails with FileNotFoundError, NoSpace, StoreRefused or StoreAway."""
    try:
        yield
    except ClientError as refused:
        code = str(refused.response.get("Error", {}).get("Code", ""))
        if code in GONE:
            raise FileNotFoundError(code) from refused
        if code in FULL:
            raise NoSpace(f"the artifact store {url} is full ({code})") from refused
        raise refusal(code, refused.operation_name, bucket, url) from refused
    except (NoCredentialsError, PartialCredentialsError) as unknown:
        raise StoreRefused(
            f"there are no keys for {url}: give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile or role "
            "where boto3 looks for one"
        ) from unknown
    except BotoCoreError as away:
        # Its own words have the server's address and the object's, which not everybody who is told this may know.
        words = f"the artifact store {url} does not answer ({type(away).__name__})"
        raise StoreAway(f"{words}: whoever runs it looks whether it is up, and at EMEP_STORE_ENDPOINT") from away


def refusal(code: str, operation: str, bucket: str, url: str) -> StoreAway:
    """What the bucket's refusal of the operation means, and what to do."""
    if code == "NoSuchBucket":
        return StoreRefused(f"there is no bucket {bucket!r}: make it, or correct EMEP_STORE_URL or EMEP_STORE_ENDPOINT")
    if code in ELSEWHERE:
        return StoreRefused(f"the bucket {bucket!r} is in another region: set EMEP_STORE_REGION to it")
    if code in DENIED:
        words = f"{operation} in {url} is refused ({code})"
        return StoreRefused(f"{words}: check the keys, and their rights against docs/artifacts.md")
    return StoreAway(f"the artifact store {url} does not do {operation} ({code}): try again")
