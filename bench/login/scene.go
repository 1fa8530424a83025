package login

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"authguard/bench/wrk"
)

// A scene is one way of being refused early, and who asks.
type scene struct {
	name   string
	accept string
	config string // on top of common
	status int    // of every attempt after the first
}

const (
	programs = "application/json"
	browsers = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
)

// common keeps the site's mode off and lets the first attempt fail.
const common = `listen: 127.0.0.1:0
admin: {listen: ""}
passwords: {cost: 10}
site: {floor: 1000000, ceiling: 1000000}
`

const slowDown = `limits:
  pair_delay: {first: 1h, max: 1h, window: 2h, after: 1}
  privileged_pair: [] # it could never be reached, which is an error
`

const accountFull = `limits:
  pair_delay: {first: 0s}
  account: ["1/24h challenge"]
`

var scenes = []scene{
	{"429 slow down, JSON", programs, slowDown, http.StatusTooManyRequests},
	{"429 slow down, page", browsers, slowDown, http.StatusTooManyRequests},
	{"403 challenge, JSON", programs, accountFull, http.StatusForbidden},
	{"403 challenge, page", browsers, accountFull, http.StatusForbidden},
}

// attempt is the form that is posted.
const attempt = "username=nobody-in-particular&password=not-the-password"

// expect makes an attempt that must be answered so.
func (s scene) expect(at *wrk.Server, status int) error {
	request, err := http.NewRequest(http.MethodPost, at.URL, strings.NewReader(attempt))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", s.accept)
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
