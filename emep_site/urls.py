"""Every address: pages, REST, admin, health."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.decorators import login_required
from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView

from scheduling import admin_history
from scheduling.api import health, problems

urlpatterns = [
    path("admin/scheduling/changes/", admin.site.admin_view(admin_history.changes), name="admin-history"),
    path("admin/", admin.site.urls),
    path("api/v1/", include("scheduling.api.urls")),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs/", login_required(SpectacularSwaggerView.as_view(url_name="schema")), name="api-docs"),
    re_path(r"^api/", problems.unknown_path),
    path("healthz", health.live),
    path("readyz", health.ready),
    path("", include("scheduling.web.urls")),
]

handler400 = problems.bad_request
handler403 = problems.permission_denied
handler404 = problems.page_not_found
handler500 = problems.server_error
