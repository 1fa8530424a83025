from django.contrib.auth.backends import ModelBackend


class Counting(ModelBackend):
    """Writes a line for every password that Django looks at."""

    def authenticate(self, request, username=None, password=None, **kwargs):
        with open("{{guesses}}", "a") as f:
            f.write("%r\n" % username)
        return super().authenticate(request, username, password, **kwargs)
