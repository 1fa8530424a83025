"""The usual Flask-Login app: who is signed in is redirected from the login."""
from flask import Flask, jsonify, redirect, request, session
from flask_login import LoginManager, UserMixin, current_user, login_required, login_user

app = Flask(__name__)
app.secret_key = "not a secret"
manager = LoginManager(app)
manager.login_view = "login"


class User(UserMixin):
    def __init__(self, name):
        self.id = name


@manager.user_loader
def load(name):
    return User(name)


def right(name, password):
    """Writes a line for every password that is checked."""
    with open("{{guesses}}", "a") as f:
        f.write(str(name) + "\n")
    return name in ("{{user}}", "mallory") and password == "{{password}}"


@app.route("/login", methods=["GET", "POST"])
def login():
    if current_user.is_authenticated:
        return redirect("/account")
    if request.method == "POST" and right(request.form.get("username"), request.form.get("password")):
        session.permanent = True  # the cookie comes with each answer from now on
        login_user(User(request.form["username"]))
        return redirect("/account")
    failed = "<p>The password is wrong.</p>" if request.method == "POST" else ""
    return failed + "<form method=post><input name=username><input name=password type=password><button>Log in</button></form>"


@app.route("/api/login", methods=["POST"])
def api():
    if current_user.is_authenticated:
        return jsonify(ok=True)
    sent = request.get_json()
    if not right(sent.get("username"), sent.get("password")):
        return jsonify(ok=False), 401
    login_user(User(sent["username"]))
    return jsonify(ok=True)


@app.route("/account")
@login_required
def account():
    return "Hello " + current_user.id


@app.route("/")
def index():
    return "Welcome"
