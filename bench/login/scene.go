package login

import "net/http"

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
