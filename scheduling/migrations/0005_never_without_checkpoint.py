from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduling', '0004_gang_parts'),
    ]

    operations = [
        migrations.AddField(
            model_name='historicalqueue',
            name='never_without_checkpoint',
            field=models.BooleanField(default=False, help_text='its jobs never make way unsaved: who has not saved within the grace runs on'),
        ),
        migrations.AddField(
            model_name='queue',
            name='never_without_checkpoint',
            field=models.BooleanField(default=False, help_text='its jobs never make way unsaved: who has not saved within the grace runs on'),
        ),
    ]
