package proxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"

	"authguard/guard"
	"authguard/internal/route"
	"authguard/web"
)

// decides reports whether the attempt may be forwarded: the app's response must depend on the password. Many apps
// redirect a signed-in user whatever the password is. That would make every guess a success, and the attacker a known
// client.
func (v *visit) decides(w http.ResponseWriter, r *http.Request, offer route.Offer) bool {
	ctx, cancel := context.WithTimeout(r.Context(), v.app.Timeout)
	defer cancel()
	var err error
	v.proof.basis, err = v.route.Basis(v.plain(ctx), v.sent.Body, offer, v.ask)
	switch {
	case err != nil && r.Context().Err() != nil: // the client has gone, and the guess with it
		v.settle(v.unanswered(guard.Withdrawn))
	case err != nil:
		v.settle(v.unanswered(guard.Abandoned))
		v.proxy.Log.Error("the app behind the proxy does not respond", "upstream", v.app.Upstream.Redacted(), "error", err)
		v.down(w, r, err)
	case v.proof.basis == route.OnSession:
		v.settle(guard.Withdrawn)
		v.refuse(w, r, web.Unusable(http.StatusConflict, "problem.signed-in"))
	case v.proof.basis == route.OnAddress: // the page is public: serve it as such
		v.settle(guard.Withdrawn)
		r.Header.Del("Authorization")
		v.route = nil
		v.app.stream(w, r)
	default:
		return true
	}
	return false
}

// unanswered returns the outcome of an attempt whose probe the app has not answered. A made-up password that reached it
// is a guess in the attacker's session, so hanging up does not make it free.
func (v *visit) unanswered(unchecked guard.Outcome) guard.Outcome {
	if v.proof.basis == route.Unclear && v.proof.asked {
		return guard.Failed
	}
	return unchecked
}

// A probe is a request of the proxy itself to the app, on behalf of the client.
type probe struct {
	answer route.Answer
	err    error
}

// ask implements route.Ask. It sends the request like the client's and discards the response.
func (v *visit) ask(r *http.Request, body []byte) (route.Answer, error) {
	one := &visit{proxy: v.proxy, app: v.app, client: v.client, route: v.route, probe: new(probe)}
	if len(body) > 0 {
		one.sent.Body = body
		one.sent.Restore(r)
	} else {
		r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil
	}
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{WroteHeaders: func() { one.reached.Store(true) }})
	v.app.forward.ServeHTTP(nowhere{}, r.WithContext(context.WithValue(ctx, visitKey{}, one)))
	v.proof.asked = v.proof.asked || one.reached.Load()
	return one.probe.answer, one.probe.err
}

// mostRead is how much of a probe's response is read so that the connection can be reused, in bytes.
const mostRead = 64 << 10

func (p *probe) answered(v *visit, answer *http.Response) (err error) {
	p.answer = route.Answer{Status: answer.StatusCode, Header: answer.Header.Clone(), Whole: true,
		Own: answer.Request.URL.EscapedPath()}
	if v.route.NeedsBody() || answer.Request.Method == http.MethodGet && v.route.ReadsForm() {
		err = v.peek(answer, &p.answer)
	}
	if n := answer.ContentLength; n >= 0 && n <= mostRead { // it may be an endless stream
		_, _ = io.Copy(io.Discard, answer.Body)
	}
	_ = answer.Body.Close()
	answer.Body = http.NoBody
	return err
}

// nowhere discards the response to a probe.
type nowhere struct{}

// Header implements http.ResponseWriter.
func (nowhere) Header() http.Header { return http.Header{} }

// Write implements http.ResponseWriter.
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (nowhere) WriteHeader(int) {}
