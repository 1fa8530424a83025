"""The last word of a path says how the app reads its body."""
import json
from urllib.parse import unquote
from xml.etree import ElementTree

from flask import Flask, redirect, request

app = Flask(__name__)


def reads_twice():
    return {unquote(name): value for name, value in request.form.items()}


def reads_visibly():
    return {name.translate({0xAD: None, 0xFEFF: None}): value for name, value in request.form.items()}


READERS = {
    "form": lambda: request.form,
    "json": lambda: request.get_json(force=True),
    "first": lambda: request.get_json(force=True)[0],
    "part": lambda: json.loads(request.form["data"]),
    "twice": reads_twice,
    "visible": reads_visibly,
    "xml": lambda: {e.tag: e.text for e in ElementTree.fromstring(request.get_data())},
}


@app.get("/")
def index():
    return "Welcome"


@app.post("/<place>/upload")
def upload(place):
    return str(len(request.files["file"].read()))


@app.post("/<place>/<reader>")
def login(place, reader):
    sent = READERS[reader]()
    name, password = sent.get("username"), sent.get("password")
    if name is None or password is None:
        return "no login", 400
    with open("{{guesses}}", "a") as f:
        f.write(name + " " + password + "\n")
    if (name, password) == ("{{user}}", "{{password}}"):
        return redirect("/account/home")
    return "wrong", 401
