from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0012_replaces"),
    ]

    operations = [
        migrations.AddField(
            model_name="allocation",
            name="gpu_index",
            field=models.PositiveIntegerField(
                help_text="the GPU's number on its node at the grant, as a reboot may reorder them", null=True
            ),
        ),
    ]
