"""What may an admin not decide? Limits that must be in order, and levels that something still needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import forms
from django.forms.models import BaseInlineFormSet

from scheduling import models
from scheduling.core.instants import LATEST_MS, MAX_YEAR
from scheduling.core.units import MAX_DURATION_S
from scheduling.store.clock import to_ms

MAX_GRACE_S = 86_400.0


class QueueForm(forms.ModelForm):
    """A queue whose default time limit may be asked for in it."""

    default_max_duration_s = forms.IntegerField(min_value=1, max_value=MAX_DURATION_S, help_text="seconds")
    max_duration_cap_s = forms.IntegerField(min_value=1, max_value=MAX_DURATION_S, help_text="seconds")
    grace_s = forms.FloatField(
        min_value=0.0, max_value=MAX_GRACE_S, help_text="seconds a victim has to save a checkpoint"
    )

    def clean(self) -> dict[str, Any]:
        """The values, with an error at the default time limit when it is above the queue's cap."""
        found: dict[str, Any] = super().clean() or self.cleaned_data
        default, cap = found.get("default_max_duration_s"), found.get("max_duration_cap_s")
        if default is not None and cap is not None and default > cap:
            message = f"the default ({default} s) must not be above the cap ({cap} s): lower it, or raise the cap"
            self.add_error("default_max_duration_s", message)
        return found


class LevelFormSet(BaseInlineFormSet):
    """The levels of a queue as they will be: its default one among them, and every rule of preemption going down."""

    def clean(self) -> None:
        """Nothing, or every reason why these levels can't be the queue's."""
        super().clean()
        if any(form.errors for form in self.forms):
            return
        kept = [form for form in self.forms if form.cleaned_data.get("name") and not form.cleaned_data.get("DELETE")]
        gone = {form.instance.pk for form in self.forms if form.cleaned_data.get("DELETE")}
        wrong = [*self._wrong_names([form.cleaned_data["name"] for form in kept]), *self._wrong_rules(kept, gone)]
        if wrong:
            raise forms.ValidationError(wrong)

    def _wrong_names(self, names: list[str]) -> Iterator[str]:
        folded = [name.casefold() for name in names]
        for name in sorted({name for name in names if folded.count(name.casefold()) > 1}):
            yield f"there are two levels {name}: case does not count; give each its own name"
        default = self.instance.default_level
        if default.casefold() not in folded:
            told = ", ".join(names) or "none"
            yield f"the default level {default} must be one of the levels ({told}): keep it, or name another default"

    def _wrong_rules(self, kept: list[Any], gone: set[int]) -> Iterator[str]:
        """Rules by which jobs would evict each other without end, once the levels have these numbers."""
        if self.instance.pk is None:
            return
        values = {form.instance.pk: form.cleaned_data["value"] for form in kept if form.instance.pk}
        for rule in models.PreemptionRule.objects.select_related("preemptor__queue", "victim__queue"):
            if gone & {rule.preemptor_id, rule.victim_id}:
                continue  # the rule goes with its level, as the page that asks for the deletion says
            above = values.get(rule.preemptor_id, rule.preemptor.value)
            below = values.get(rule.victim_id, rule.victim.value)
            if {rule.preemptor_id, rule.victim_id} & values.keys() and below >= above:
                yield (
                    f"the rule {rule} needs a victim whose number is below {above}, and it would be {below}: change "
                    "the numbers, or delete the rule first"
                )


class PreemptionRuleForm(forms.ModelForm):
    """A rule goes down: of levels of equal numbers, jobs would evict each other without end."""

    def clean(self) -> dict[str, Any]:
        """The values, with an error at ``victim`` when its level is not below the preemptor's."""
        found: dict[str, Any] = super().clean() or self.cleaned_data
        above, below = found.get("preemptor"), found.get("victim")
        if above is not None and below is not None and below.value >= above.value:
            self.add_error("victim", f"the number of its level ({below.value}) must be below {above.value}")
        return found


class WindowForm(forms.ModelForm):
    """A window whose end comes after its start, both within the years that the scheduler reckons with."""

    def clean(self) -> dict[str, Any]:
        """The values, with an error at each instant that can't be."""
        found: dict[str, Any] = super().clean() or self.cleaned_data
        start, end = found.get("start"), found.get("end")
        for name, moment in (("start", start), ("end", end)):
            if moment is not None and not 0 <= to_ms(moment) < LATEST_MS:
                self.add_error(name, f"it must lie in the years 1970 to {MAX_YEAR}")
        if start is not None and end is not None and end <= start:
            message = f"a window must end after its start ({start:%Y-%m-%d %H:%M}), not at {end:%Y-%m-%d %H:%M}"
            self.add_error("end", message)
        return found
