package admin

import (
	"net/netip"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/control"
	"authguard/trusted"
	"authguard/web/pages"
)

// lookUp is the answer to ?account= and ?address=; nothing if neither came.
func (d Deps) lookUp(c echo.Context, now time.Time) pages.LookUp {
	l := pages.LookUp{Account: strings.TrimSpace(c.QueryParam("account")), Address: strings.TrimSpace(c.QueryParam("address"))}
	if l.Account == "" && l.Address == "" {
		return l
	}
	from, err := address(l.Address)
	var e control.Explanation
	if err == nil {
		e, err = d.Control.Explain(c.Request().Context(), l.Account, from)
	}
	if err != nil {
		p := problemOf(err)
		l.Problem = sentence(p.Detail)
		if p.Status >= 500 {
			d.Log.Error("look-up failed", "error", err)
			l.Problem = "It could not be looked up. The server's log says why."
		}
		return l
	}
	l.Result = explainView(&e, now)
	return l
}

func explainView(e *control.Explanation, now time.Time) *pages.Explain {
	v := &pages.Explain{Summary: strings.Join(append([]string{e.Summary}, capitals(e.Words)...), " "), Open: e.Open, Known: e.Status == trusted.Privileged}
	for _, line := range e.Lines {
		if l, ok := limitView(e, line, now); ok {
			v.Limits = append(v.Limits, l)
		}
	}
	return v
}

// capitals makes sentences of the words.
func capitals(words []string) (sentences []string) {
	for _, w := range words {
		sentences = append(sentences, strings.ToUpper(w[:1])+sentence(w[1:]))
	}
	return sentences
}

// limitView is a line that can be told truthfully. The guard counts a subject
// over the longest window of its ladder: a shorter limit is known to be full or
// not, but not how full.
func limitView(e *control.Explanation, line guard.Line, now time.Time) (pages.LimitLine, bool) {
	if line.Delay || !line.Full && line.Limit.Window < longest(e.Lines, line.Subject) {
		return pages.LimitLine{}, false
	}
	l := pages.LimitLine{
		Subject: line.Subject.String(), Name: nameOf(e, line.Subject), Used: line.Used, Limit: line.Limit.Failures,
		Window: line.Limit.Window, Then: beyondWords(line.Limit.Then), Monitor: line.Limit.Monitor,
	}
	if line.Full {
		l.Used, l.FreesAt = max(l.Used, l.Limit), now.Add(line.FreeIn)
	} else {
		l.Used = min(l.Used, l.Limit-1)
	}
	return l, true
}

func longest(lines []guard.Line, kind guard.SubjectKind) (d time.Duration) {
	for _, l := range lines {
		if l.Subject == kind && !l.Delay {
			d = max(d, l.Limit.Window)
		}
	}
	return d
}

// nameOf is whose count a limit is.
func nameOf(e *control.Explanation, kind guard.SubjectKind) string {
	switch kind {
	case guard.OnAccount:
		return e.Account
	case guard.OnAddress:
		return e.Address.String()
	case guard.OnNetwork:
		return networkOf(e.Address)
	}
	return ""
}

// networkOf is the network around an address (R10).
func networkOf(a netip.Addr) string {
	bits := 48
	if a = a.Unmap(); a.Is4() {
		bits = 24
	}
	prefix, err := a.WithZone("").Prefix(bits)
	if err != nil {
		return ""
	}
	return prefix.String()
}

func beyondWords(then guard.Action) string {
	switch then {
	case guard.Challenge:
		return "a CAPTCHA"
	case guard.Forget:
		return "treated like a stranger's"
	case guard.Wait:
		return "told to wait"
	}
	return "refused until it frees"
}
