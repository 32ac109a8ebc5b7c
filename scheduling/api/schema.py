"""How OpenAPI names the credentials."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class TokenScheme(OpenApiAuthenticationExtension):
    """A person's API token."""

    target_class = "scheduling.api.access.BearerToken"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """An HTTP bearer token."""
        return {"type": "http", "scheme": "bearer", "description": "An API token: emep_..."}


class SessionScheme(OpenApiAuthenticationExtension):
    """A signed-in browser."""

    target_class = "scheduling.api.access.BrowserSession"
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """The session cookie; unsafe methods need the CSRF token in X-CSRFToken as well."""
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "sessionid",
            "description": "With X-CSRFToken to change anything.",
        }


class NodeScheme(OpenApiAuthenticationExtension):
    """A node's token."""

    target_class = "scheduling.api.access.NodeToken"
    name = "node"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """An HTTP bearer token of a node."""
        return {"type": "http", "scheme": "bearer", "description": "A node's token: emepn_..."}
