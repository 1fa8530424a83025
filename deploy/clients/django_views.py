"""A Django view that asks guard.py, in the same folder: docs/how-to/decision-api.md.

Behind a proxy, take the client's IP address from the header that your proxy sets, not from REMOTE_ADDR.
"""
from django.contrib.auth import authenticate, login
from django.http import JsonResponse
from django.views.decorators.http import require_POST

import guard


@require_POST
def log_in(request):
    found = []

    def check(name, password):
        found.append(authenticate(request, username=name, password=password))
        return found[0] is not None

    challenge = None
    if "captcha_id" in request.POST:
        challenge = {"id": request.POST["captcha_id"], "answer": request.POST.get("captcha_answer", "")}
    status, answer = guard.login(
        request.POST.get("username", ""), request.POST.get("password", ""), request.META["REMOTE_ADDR"],
        check, request.COOKIES.get("device"), challenge)
    device = answer.pop("device", None)
    response = JsonResponse(answer, status=status)
    if "retry_after" in answer:
        response["Retry-After"] = answer["retry_after"]
    if status == 200:
        login(request, found[0])
        if device:
            response.set_cookie("device", device, max_age=90 * 24 * 3600, httponly=True, secure=True, samesite="Lax")
    return response
