package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/web"
	"authguard/web/pages"
)

// solvePath is the page for apps that cannot show a challenge. Its user names the account and solves the challenge that
// this account asks for now. Then one attempt from this IP address needs none, without a cookie: native clients get in,
// too.
const solvePath = "/solve"

// routeNames are the routes with counters of their own.
func (p *Proxy) routeNames() (names []string) {
	if one := p.app.Load(); one != nil {
		for _, r := range one.Routes {
			if !slices.Contains(names, r.Name) {
				names = append(names, r.Name)
			}
		}
	}
	return names
}

func (p *Proxy) solvePage(c echo.Context) error {
	return p.showSolve(c, http.StatusOK, pages.SolveView{Route: c.QueryParam("route")})
}

func (p *Proxy) solve(c echo.Context) error {
	field := web.AnswerField(p.Widget.Load())
	form, err := web.ReadForm(c, "username", "route", "captcha_id", "captcha_answer", "captcha_work", "code", field)
	if err != nil {
		return err
	}
	view := pages.SolveView{Route: form["route"]}
	names := p.routeNames()
	switch {
	case !slices.Contains(names, view.Route):
		return web.Unusable(http.StatusBadRequest, "problem.form")
	case strings.TrimSpace(form["username"]) == "":
		return web.Unusable(http.StatusBadRequest, "problem.no-name")
	}
	g := p.Guard(view.Route)
	a := guard.Attempt{Account: form["username"], Address: p.Edge.Client(c.Request()).Address,
		Integration: integration(view.Route), Solution: challenge.Solution{ID: form["captcha_id"], Answer: form[field],
			Work: form["captcha_work"]}}
	if a.Solution.Answer == "" {
		a.Solution.Answer = form["captcha_answer"]
	}
	view.Account = a.Account
	status, asked := http.StatusOK, guard.Decision{}
	if code := strings.TrimSpace(form["code"]); code != "" && g.TakesCodes() {
		if asked, err = p.codeAhead(c.Request().Context(), g, a, code); err != nil {
			return err
		}
		var problem web.Problem
		switch {
		case asked.CodeValid || asked.Known && asked.Checks():
			view.Solved = true
			return p.showSolve(c, status, view)
		case asked.Checks():
			view.Message = pages.Message{Kind: pages.InvalidInput,
				Detail: p.Look.Page(c.Response().Header(), c.Request()).T("message.code-failed")}
			return p.showSolve(c, http.StatusForbidden, view)
		}
		problem, view.Message = web.Stopped(&asked)
		view.Message.CodeFailed = asked.Reasons.Has(guard.CodeFailed)
		if status = problem.Status; problem.Type != web.ChallengeRequired {
			return p.showSolve(c, status, view)
		}
	} else if a.Solution.Claimed() {
		d, err := g.SolveAhead(c.Request().Context(), a)
		if err != nil {
			return err
		}
		if d.Action == guard.Proceed {
			view.Solved = true
			return p.showSolve(c, status, view)
		}
		var problem web.Problem
		problem, view.Message = web.Stopped(&d)
		if status = problem.Status; problem.Type != web.ChallengeRequired {
			return p.showSolve(c, status, view)
		}
	}
	issued, err := g.Issue(c.Request().Context(), a, asked)
	switch {
	case errors.Is(err, guard.ErrAccountName):
		return web.Unusable(http.StatusBadRequest, "problem.no-name")
	case errors.Is(err, guard.ErrChallenges):
		status = http.StatusTooManyRequests
		wait := guard.Decision{Action: guard.Delay, RetryAfter: challengesWait}
		_, view.Message = web.Stopped(&wait)
	case err != nil:
		return err
	default:
		view.Challenge = web.Shown(c.Response().Header(), p.below(&issued), p.Widget.Load())
	}
	return p.showSolve(c, status, view)
}

// codeAhead checks a verification code as an attempt without a password. If it is valid, the next attempt of this account
// and IP address on this node carries it, within challenge.TTL.
func (p *Proxy) codeAhead(ctx context.Context, g *guard.Guard, a guard.Attempt, code string) (guard.Decision, error) {
	a.Solution, a.VerificationCode = challenge.Solution{}, code
	d, err := g.Begin(ctx, a)
	if err == nil && d.Checks() {
		err = g.Settle(ctx, d.Ticket, guard.Withdrawn)
	}
	if err == nil && d.CodeValid {
		p.codes.Add(codeKey{a.Integration, d.Account, a.Address}, ahead{code, p.Now()})
	}
	return d, err
}

// A codeKey is the attempts that may carry a code, and ahead the code.
type (
	codeKey struct {
		integration, account string
		address              netip.Addr
	}
	ahead struct {
		code string
		at   time.Time
	}
)

const mostCodes = 1000 // each is valid, so invented ones replace none

// codeFor takes the code for an attempt; empty if there is none.
func (p *Proxy) codeFor(g *guard.Guard, a guard.Attempt) string {
	account, err := g.Normalise(a.Account)
	key := codeKey{a.Integration, account, a.Address}
	one, ok := p.codes.Get(key)
	if err != nil || !ok || !p.codes.Remove(key) || p.Now().Sub(one.at) > challenge.TTL {
		return ""
	}
	return one.code
}

// challengesWait is the longest wait after too many unsolved challenges.
const challengesWait = 15 * time.Second

func (p *Proxy) showSolve(c echo.Context, status int, view pages.SolveView) error {
	view.Page, view.Action = p.Look.Page(c.Response().Header(), c.Request()), p.Base+solvePath
	if view.Routes = p.routeNames(); view.Route == "" && len(view.Routes) > 0 {
		view.Route = view.Routes[0]
	}
	view.AskCode = p.Guard(view.Route).TakesCodes()
	page, err := pages.RenderSolve(view)
	return web.WritePage(c, status, page, err)
}

// below makes a challenge's paths ours.
func (p *Proxy) below(c *challenge.Challenge) *challenge.Challenge {
	for _, path := range []*string{&c.Image, &c.Audio} {
		if *path != "" && !strings.HasPrefix(*path, p.Base) {
			*path = p.Base + *path
		}
	}
	return c
}

// solveAt returns the address of the page for a route: the whole URL, since apps show it as text.
func (v *visit) solveAt(r *http.Request) string {
	origin := v.proxy.Origin
	if origin == "" {
		scheme := "http://"
		if v.client.Secure {
			scheme = "https://"
		}
		origin = scheme + r.Host
	}
	at := origin + v.proxy.Base + solvePath
	if names := v.proxy.routeNames(); len(names) > 1 {
		at += "?route=" + v.route.Name
	}
	return at
}
