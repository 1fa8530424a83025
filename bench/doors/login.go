package doors

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

const accountFull = `limits:
  pair_delay: {first: 0s}
  account: ["1/24h challenge"]
`

// login are the ways of being refused early, and who asks.
func login(string) []scene {
	return []scene{
		refused("429 slow down, JSON", programs, slowDown, http.StatusTooManyRequests),
		refused("429 slow down, page", browsers, slowDown, http.StatusTooManyRequests),
		refused("403 challenge, JSON", programs, accountFull, http.StatusForbidden),
		refused("403 challenge, page", browsers, accountFull, http.StatusForbidden),
	}
}

// attempt is the form that is posted.
const attempt = "username=no-such-user&password=not-the-password"

// refused is a login whose every attempt after the first is answered with a status.
func refused(name, accept, config string, status int) scene {
	form := wrk.Request{
		Path: "login", Method: http.MethodPost, Bodies: []string{attempt}, Refused: true,
		Headers: []string{"Content-Type: application/x-www-form-urlencoded", "Accept: " + accept},
	}
	return scene{name, config, form, func(ctx context.Context, ours *wrk.Server) error {
		for _, want := range []int{http.StatusUnauthorized, status} {
			if err := expect(ctx, ours, accept, want); err != nil {
				return err
			}
		}
		return nil
	}}
}

// expect makes an attempt that must be answered so.
func expect(ctx context.Context, at *wrk.Server, accept string, status int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at.URL+"login", strings.NewReader(attempt))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", accept)
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	if answer.StatusCode != status {
		err = fmt.Errorf("%s answers %d where %d is to be measured", at.URL, answer.StatusCode, status)
	}
	return errors.Join(err, answer.Body.Close())
}
