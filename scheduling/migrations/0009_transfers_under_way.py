from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduling', '0008_plain_orders'),
    ]

    operations = [
        migrations.AddField(
            model_name='attemptnode',
            name='transfer',
            field=models.JSONField(help_text='what the node moves for it just now, and how far it is', null=True),
        ),
    ]
