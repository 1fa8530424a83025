package integrations

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"authguard/bench/wrk"
)

const (
	programs = "application/json"
	browsers = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
)

// challenged challenges all unknown clients in a network after its first failure. The rate of unsolved
// challenges does not turn CAPTCHA mode on.
const challenged = `trusted_proxies: [127.0.0.1]
limits:
  network: ["1/24h challenge"]
`

// login are the login endpoint's scenes.
func login(string) []scene {
	return []scene{
		stopped("429 delay, JSON", programs, delayed, http.StatusTooManyRequests, one()),
		stopped("429 delay, page", browsers, delayed, http.StatusTooManyRequests, one()),
		stopped("403 challenge, JSON", programs, challenged, http.StatusForbidden, many()),
		stopped("403 challenge, page", browsers, challenged, http.StatusForbidden, many()),
	}
}

// one is an attempt that is delayed each time.
func one() []string { return []string{form(0)} }

// many are attempts on so many accounts that none gets more than ten challenges, after which it would
// be delayed.
func many() (all []string) {
	for i := range 100_000 {
		all = append(all, form(i))
	}
	return all
}

// form is an attempt to log in to an account. Each has another password, so that none is used for
// password spraying.
func form(i int) string {
	return fmt.Sprintf("username=no-such-user-%d&password=not-the-password-%d", i, i)
}

// stopped is a login whose attempts are answered with a status, after one failure in each network.
func stopped(name, accept, config string, status int, bodies []string) scene {
	request := wrk.Request{
		Path: "login", Method: http.MethodPost, Bodies: bodies, Refused: true,
		Headers: []string{"Content-Type: application/x-www-form-urlencoded", "Accept: " + accept},
	}
	s := scene{name: name, config: config, request: request}
	s.ready = func(ctx context.Context, ours *wrk.Server) error {
		for i := range min(len(bodies), wrk.Networks) {
			if err := expect(ctx, ours, accept, i, http.StatusUnauthorized); err != nil {
				return err
			}
		}
		return s.done(ctx, ours)
	}
	s.done = func(ctx context.Context, ours *wrk.Server) error {
		return expect(ctx, ours, accept, len(bodies)-1, status)
	}
	return s
}

// expect makes the attempt of a number in the network of the same number, and expects a status.
func expect(ctx context.Context, at *wrk.Server, accept string, i, status int) error {
	body := strings.NewReader(form(i))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at.URL+"login", body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", accept)
	request.Header.Set("X-Forwarded-For", fmt.Sprintf("198.18.%d.251", i%wrk.Networks))
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	if answer.StatusCode != status {
		err = fmt.Errorf("%s answers attempt %d with %d, and not %d", at.URL, i, answer.StatusCode, status)
	}
	return errors.Join(err, answer.Body.Close())
}
