"""A server that speaks S3, on 127.0.0.1, in a thread of this process."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import boto3
from botocore.config import Config
from moto.server import ThreadedMotoServer

KEYS = {
    "AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "of-no-use", "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}  # fmt: skip


@dataclass(slots=True)
class S3:
    """The server; ``client`` speaks to it past everything that is tested."""

    endpoint: str
    client: Any
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def fresh_bucket(self) -> str:
        """The name of a new, empty bucket."""
        name = f"bucket-{next(self._numbers)}"
        self.client.create_bucket(Bucket=name)
        return name


@contextlib.contextmanager
def served() -> Iterator[S3]:
    """The server, with the keys in the environment, until the context ends."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with mock.patch.dict(os.environ, KEYS):
        server.start()
        try:
            host, port = server.get_host_and_port()
            endpoint = f"http://{host}:{port}"
            client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1",
                                  config=Config(s3={"addressing_style": "path"}))  # fmt: skip
            yield S3(endpoint, client)
        finally:
            server.stop()
