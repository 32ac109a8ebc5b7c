"""HTTP and websocket, one application."""

from __future__ import annotations

import os

from django.conf import settings
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "emep_site.settings")
http = get_asgi_application()  # loads the apps: what follows may import models

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from django.urls import path  # noqa: E402

from emep_site import liveness  # noqa: E402
from scheduling.api.at_work import AtWork  # noqa: E402
from scheduling.feed.consumers import FeedConsumer  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": AtWork(http, most=settings.REQUESTS_AT_WORK),
        "websocket": AllowedHostsOriginValidator(
            AuthMiddlewareStack(URLRouter([path("ws/feed/", FeedConsumer.as_asgi())]))
        ),
    }
)
liveness.start()
