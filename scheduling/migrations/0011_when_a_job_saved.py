from django.db import migrations, models
from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce


def fill(apps, schema_editor):
    """What was saved before is taken as saved when its sending began: the moment of its commit was not kept."""
    job, upload = apps.get_model("scheduling", "Job"), apps.get_model("scheduling", "Upload")
    artifact = apps.get_model("scheduling", "Artifact")
    upload.objects.filter(artifact__isnull=False).update(committed_at=F("created_at"))
    own = upload.objects.filter(attempt__job=OuterRef("pk"), artifact=OuterRef("resume")).order_by("-committed_at")
    made = artifact.objects.filter(pk=OuterRef("resume"))
    job.objects.filter(resume__isnull=False).update(
        resume_saved_at=Coalesce(Subquery(own.values("committed_at")[:1]), Subquery(made.values("created_at")[:1]))
    )


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0010_in_vain_and_left_out"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="resume_saved_at",
            field=models.DateTimeField(help_text="when it, or the job it does again, saved that", null=True),
        ),
        migrations.AddField(
            model_name="upload",
            name="committed_at",
            field=models.DateTimeField(help_text="its own commit, also of bytes that were there before", null=True),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
