package mw_test

import (
	"context"
	"fmt"
	"html"
	"log"
	"net/http"
	"strings"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/image"
	"authguard/guard"
	"authguard/web/mw"
)

// question is a challenge that club members can solve. It is stateless: the desk ensures that
// a solution is used only once, and only from the IP address that requested the challenge.
type question struct{}

func (question) Kind() string { return "question" }

func (question) Issue(context.Context, challenge.Task) (challenge.Puzzle, error) {
	return challenge.Puzzle{}, nil
}

func (question) Check(_ context.Context, _ challenge.Task, answer string) (bool, error) {
	return strings.EqualFold(strings.TrimSpace(answer), "magpie"), nil
}

// Clients get a question of your own instead of the built-in challenge.
func Example_challenge() {
	secret := []byte("thirty-two random bytes, or more")
	pictures, err := image.New(image.Config{})
	if err != nil {
		log.Fatal(err)
	}
	desk, err := challenge.New(challenge.Config{
		Secret: secret, Spent: challenge.NewMemorySpent(0, nil),
		BuiltIn: pictures, Others: []challenge.Provider{question{}}, Preferred: "question",
	})
	if err != nil {
		log.Fatal(err)
	}
	g, err := guard.Default(secret, func(d *guard.Defaults) {
		d.Challenges = desk
		d.Policy.PairDelay = guard.PairDelay{}
	})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	wrong := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	login := mw.Protect(g, wrong, mw.OnRefusal(ask))
	for i := range 6 {
		fmt.Print(post(login, fmt.Sprint("guess ", i)).Code, " ")
	}
	// Output: 401 401 401 401 401 403
}

// ask shows the question. All other responses come from mw.
func ask(w http.ResponseWriter, r *http.Request, f *mw.Refusal) {
	if f.Challenge == nil || f.Challenge.Kind != "question" || f.Form == "" {
		f.Write(w, r)
		return
	}
	w.WriteHeader(f.Status)
	fmt.Fprintf(w, `<!doctype html><form method="post"><input type="hidden" name="authguard_form" value="%s">
<input type="hidden" name="captcha_id" value="%s"><label>Our bird? <input name="captcha_answer"></label><button>Go on</button></form>`,
		html.EscapeString(f.Form), html.EscapeString(f.Challenge.ID))
}
