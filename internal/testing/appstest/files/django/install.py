# Makes the database and its two accounts.
import os

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
import django

django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command

call_command("migrate", verbosity=0)
User.objects.create_superuser("{{user}}", "alice@example.org", "{{password}}")
User.objects.create_user("mallory", password="{{password}}")
