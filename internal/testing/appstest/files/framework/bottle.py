"""Bottle reads pairs out of any type but multipart, and parts out of every multipart type."""
from bottle import HTTPResponse, default_app, get, post, request


@get("/")
def index():
    return "Welcome"


@post("/<place>/upload")
def upload(place):
    return str(len(request.files["file"].file.read()))


@post("/<place>/form")
def login(place):
    name, password = request.forms.get("username"), request.forms.get("password")
    if name is None or password is None:
        return HTTPResponse("no login", 400)
    with open("{{guesses}}", "a") as f:
        f.write(name + " " + password + "\n")
    if (name, password) == ("{{user}}", "{{password}}"):
        return HTTPResponse("", 302, Location="/account/home")
    return HTTPResponse("wrong", 401)


app = default_app()
