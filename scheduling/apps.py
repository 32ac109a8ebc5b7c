"""The Django application."""

from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    name = "scheduling"
    verbose_name = "GPU scheduling"

    def ready(self) -> None:
        """The store knows whom to ask about the inputs of jobs that wait for others."""
        from scheduling.services import after  # noqa: PLC0415  models can be imported only now
        from scheduling.store.commit.after import judge_by  # noqa: PLC0415

        judge_by(after.refit)
