from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="nodelive",
            name="health",
            field=models.JSONField(default=dict, help_text="what is remembered of each GPU's health, by UUID"),
        ),
        migrations.AddField(
            model_name="gpu",
            name="state_since",
            field=models.DateTimeField(null=True),
        ),
    ]
