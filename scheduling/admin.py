"""Policy by hand: queues, levels, rules, projects, weights, people, nodes. What the scheduler writes is only shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.options import BaseModelAdmin, InlineModelAdmin
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import UserAdmin
from django.db.models import Field, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from simple_history.admin import SimpleHistoryAdmin

from scheduling import admin_nodes, admin_rules, models
from scheduling.admin_forms import LevelFormSet, PreemptionRuleForm, QueueForm, WindowForm
from scheduling.admin_weights import Prefilled, WeightList
from scheduling.core.policy import MAX_WEIGHT
from scheduling.services import now, policy_versions, pool, windows
from scheduling.store.queries.access import actor_of

admin.site.site_header = admin.site.site_title = "EMEP"
admin.site.index_title = "Policy and records"


class Weighed(BaseModelAdmin):
    """A form whose weights are those the scheduler accepts."""

    def formfield_for_dbfield(self, db_field: Field[Any, Any], request: HttpRequest, **kwargs: Any) -> Any:
        """The form field; a weight is from 0 to the scheduler's most."""
        if db_field.name == "weight":
            kwargs |= {"min_value": 0.0, "max_value": MAX_WEIGHT}
        return super().formfield_for_dbfield(db_field, request, **kwargs)


class Policy(Weighed, Prefilled, SimpleHistoryAdmin):
    """What admins decide; every change is kept with who made it, and the whole policy as a version of it."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The list; what is changed in it is a version of the policy."""
        with _versioned(request):
            return super().changelist_view(request, extra_context)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """The form; what is changed by it is a version of the policy."""
        with _versioned(request):
            return super().changeform_view(request, *args, **kwargs)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """The question; what is deleted makes a version of the policy."""
        with _versioned(request):
            return super().delete_view(request, *args, **kwargs)


@contextmanager
def _versioned(request: HttpRequest) -> Iterator[None]:
    """What a POST has changed of the policy is kept as a version, with who did it."""
    if request.method != "POST":
        yield
        return
    policy_versions.note(now(), user_id=None, why=policy_versions.ELSEWHERE)
    yield
    policy_versions.note(now(), user_id=request.user.pk, why="changed in the admin")


class Shown(admin.ModelAdmin):
    """What the scheduler, the agents and the users write: shown here, changed nowhere but through the services."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never: rows come from the services."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never: a state written by hand would break the scheduler's promises."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never: the record is the audit."""
        return False


class LevelInline(admin.TabularInline):
    """The priorities of a queue."""

    model = models.Level
    formset = LevelFormSet
    extra = 0


class MembershipInline(Weighed, admin.TabularInline):
    """Who belongs to a project, with which weight and highest priority."""

    model = models.Membership
    extra = 0
    autocomplete_fields = ("user", "project")


@admin.register(models.Queue)
class QueueAdmin(WeightList, Policy):
    """Queues with their levels."""

    ledger = "queue"

    list_display = (
        "name", "weight", "default_level", "default_max_duration_s", "max_duration_cap_s", "grace_s",
        "never_without_checkpoint",
    )  # fmt: skip
    form = QueueForm
    list_editable = ("weight",)
    inlines = (LevelInline,)


@admin.register(models.PreemptionRule)
class PreemptionRuleAdmin(Policy):
    """Who may take whose GPUs."""

    form = PreemptionRuleForm
    list_display = ("preemptor", "victim")
    list_filter = ("preemptor__queue", "victim__queue")
    list_select_related = ("preemptor__queue", "victim__queue")

    def get_urls(self) -> list[Any]:
        """With that of the table of all rules."""
        table = self.admin_site.admin_view(self.matrix)
        return [path("table/", table, name="scheduling_preemptionrule_matrix"), *super().get_urls()]

    def matrix(self, request: HttpRequest) -> HttpResponse:
        """All rules as one table of checkboxes; what is changed in it is a version of the policy."""
        with _versioned(request):
            return admin_rules.matrix(request, self.admin_site.each_context(request))


@admin.register(models.Project)
class ProjectAdmin(WeightList, Policy):
    """Projects, their weights edited in the list."""

    ledger = "project"

    list_display = ("name", "weight", "artifact_quota_gb")
    list_editable = ("weight", "artifact_quota_gb")
    search_fields = ("name",)
    inlines = (MembershipInline,)


@admin.register(models.Membership)
class MembershipAdmin(WeightList, Policy):
    """People in projects."""

    ledger = "user"

    list_display = ("project", "user", "weight", "level_cap")
    list_editable = ("weight", "level_cap")
    list_filter = ("project",)
    list_select_related = ("project", "user")
    autocomplete_fields = ("project", "user")


class OneRow(Policy):
    """Numbers for the whole pool, in one row."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Only while the one row is missing."""
        return not self.model._default_manager.exists()

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never: the scheduler needs the row."""
        return False


@admin.register(models.FairShareSettings)
class FairShareSettingsAdmin(OneRow):
    """How long consumption counts."""

    list_display = ("__str__", "half_life_s")


@admin.register(models.PlanningSettings)
class PlanningSettingsAdmin(OneRow):
    """How the scheduler places, reserves and evicts."""

    list_display = ("__str__", "prefer", "nvlink_mode", "in_flight", "reservations_per_level", "aged_after_s")
    fieldsets = (
        ("Order", {"fields": ("ledgers", "in_flight")}),
        ("Places", {"fields": ("prefer", "nvlink_mode")}),
        ("Promises", {"fields": ("reservations_per_level", "aged_after_s", "aged_reservations", "rack_patience_s")}),
        ("Evictions", {"fields": ("protect_s", "protect_times", "nomination_slack_s")}),
    )


@admin.register(models.Window)
class WindowAdmin(admin.ModelAdmin):
    """When nodes are closed, for maintenance or but for one project. The scheduler hears of every change."""

    form = WindowForm
    list_display = ("name", "start", "end", "project", "created_by")
    list_filter = ("project",)
    search_fields = ("name",)
    filter_horizontal = ("nodes",)
    list_select_related = ("project", "created_by")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """The row is kept, with who made it and when."""
        if not change:
            obj.created_by, obj.created_at = request.user, now()
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Its nodes are kept, and the scheduler hears of it."""
        super().save_related(request, form, formsets, change)
        windows.announce(form.instance.pk, "changed" if change else "added", actor_of(request.user), now())

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """The window is gone, and the scheduler hears of it."""
        windows.remove(obj.pk, actor_of(request.user), now())

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """The chosen windows are gone, and the scheduler hears of each."""
        for window in queryset:
            self.delete_model(request, window)


@admin.register(models.BillingWeight)
class BillingWeightAdmin(Policy):
    """What an hour of a GPU model counts."""

    list_display = ("gpu_model", "weight")
    list_editable = ("weight",)


class GpuInline(admin.TabularInline):
    """The GPUs of a node, as its agent reports them."""

    model = models.Gpu
    fields = readonly_fields = ("index", "uuid", "model", "memory_mib", "nvlink_group_id", "state", "why")
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never: agents describe their GPUs."""
        return False


class NodeForm(forms.Form):
    """The name of a node to be made, or to be given a new token."""

    name = forms.CharField(max_length=63, help_text="1 to 63 lower-case letters, digits and dashes")


@admin.register(models.Node)
class NodeAdmin(Shown):
    """Nodes: shown, made with a token that is shown once, cordoned, drained, returned."""

    list_display = ("name", "state", "rack_id", "simulated", "agent_version", "registered_at")
    list_filter = ("state", "rack_id", "simulated")
    search_fields = ("name",)
    inlines = (GpuInline,)
    exclude = ("token_sha256",)
    actions = ("cordon", "drain", "back")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whoever may add nodes makes one with its token."""
        return request.user.has_perm("scheduling.add_node")

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Whoever may operate the pool may cordon, drain and return."""
        return request.user.has_perm("scheduling.operate_pool")

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """A form for the name; posted, the node exists and its token is shown, this once."""
        if not self.has_add_permission(request):
            return self.changelist_view(request)
        form, token = NodeForm(request.POST or None), ""
        if request.method == "POST" and form.is_valid():
            try:
                token = pool.add_node(form.cleaned_data["name"])
            except ValueError as wrong:
                form.add_error("name", str(wrong))
            else:
                self.log_addition(request, models.Node.objects.get(name=form.cleaned_data["name"]), "new token")
        context = {**self.admin_site.each_context(request), "form": form, "token": token, "title": "Add a node"}
        response = TemplateResponse(request, "admin/scheduling/node/add.html", context)
        response["Cache-Control"] = "no-store"
        return response

    @admin.action(description="Cordon: no new work", permissions=["operate"])
    def cordon(self, request: HttpRequest, nodes: QuerySet[models.Node]) -> HttpResponse | None:
        """The chosen nodes take no new work, once that was confirmed."""
        return admin_nodes.operate(request, nodes, "cordon", self.admin_site.each_context(request))

    @admin.action(
        description="Drain: no new work; what runs goes on to its end, or a deadline", permissions=["operate"]
    )
    def drain(self, request: HttpRequest, nodes: QuerySet[models.Node]) -> HttpResponse | None:
        """The chosen nodes take no new work until they are returned, once that was confirmed."""
        return admin_nodes.operate(request, nodes, "drain", self.admin_site.each_context(request))

    @admin.action(description="Return to service", permissions=["operate"])
    def back(self, request: HttpRequest, nodes: QuerySet[models.Node]) -> HttpResponse | None:
        """The chosen nodes take work again, once that was confirmed."""
        return admin_nodes.operate(request, nodes, "return", self.admin_site.each_context(request))


@admin.register(models.Gpu)
class GpuAdmin(Shown):
    """GPUs as their nodes report them."""

    list_display = ("uuid", "node", "index", "model", "memory_mib", "nvlink_group_id", "state", "why")
    list_filter = ("state", "node", "model")
    search_fields = ("uuid",)
    list_select_related = ("node",)


@admin.register(models.Job)
class JobAdmin(Shown):
    """Jobs, newest first."""

    list_display = ("name", "state", "kind", "project", "user", "queue", "level", "gpu_count", "submitted_at")
    list_filter = ("state", "kind", "queue", "project")
    search_fields = ("name", "id")
    list_select_related = ("project", "user", "queue", "level")
    show_full_result_count = False


@admin.register(models.Attempt)
class AttemptAdmin(Shown):
    """Runs of jobs."""

    list_display = ("job", "number", "epoch", "granted_at", "started_at", "ended_at", "outcome", "exit_code")
    list_filter = ("outcome",)
    list_select_related = ("job",)
    show_full_result_count = False


@admin.register(models.Allocation)
class AllocationAdmin(Shown):
    """GPUs held by attempts: what is charged."""

    list_display = ("gpu", "attempt", "granted_at", "released_at", "billing")
    list_select_related = ("gpu", "attempt")
    show_full_result_count = False


@admin.register(models.Event)
class EventAdmin(Shown):
    """Everything that happened."""

    list_display = ("id", "at", "type", "object", "object_id", "actor", "message")
    list_filter = ("object", "type")
    search_fields = ("object_id",)
    ordering = ("-id",)
    show_full_result_count = False


@admin.register(models.Artifact)
class ArtifactAdmin(Shown):
    """Artifacts with their digests."""

    list_display = ("name", "kind", "project", "size", "digest", "published", "corrupt", "created_at")
    list_filter = ("kind", "project", "published", "corrupt")
    search_fields = ("name", "digest")
    list_select_related = ("project",)
    show_full_result_count = False


admin.site.unregister(get_user_model())


@admin.register(get_user_model())
class PersonAdmin(UserAdmin):
    """People, with the projects they belong to."""

    def get_inlines(self, request: HttpRequest, obj: Any) -> list[type[InlineModelAdmin[Any, Any]]]:
        """Memberships are given once the person exists."""
        return [MembershipInline] if obj is not None else []
