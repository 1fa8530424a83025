from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.http import HttpResponse
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("accounts/login/", LoginView.as_view(redirect_authenticated_user=True)),
    path("accounts/", include("django.contrib.auth.urls")),
    path("hello/", lambda request: HttpResponse("hello %s" % request.user)),
]
