package alerts

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"authguard/internal/events"
)

type target struct {
	raw    string // without the fragment
	url    *url.URL
	scheme string // without "+https"
	label  string // its name: unique, without secrets
	kinds  []Kind // to deliver; empty: all
	secret string // key that signs webhooks
	make   func(client *httpClient) sender
}

// Check reports whether a channel's address is valid, without sending anything. The error reveals only its scheme.
func Check(address string) error {
	_, err := targets([]string{address})
	if err != nil {
		err = errors.New(strings.TrimPrefix(err.Error(), "alerts.to[0]: "))
	}
	return err
}

func dial(t target, private []netip.Prefix) sender {
	return redacting{t, t.make(newClient(private))}
}

// targets parses the addresses of a Config. Duplicates are one channel.
func targets(addresses []string) (all []target, err error) {
	named := map[string]int{}
	for i, address := range addresses {
		for _, one := range expand(address) {
			t, err := parse(one)
			if err != nil {
				return nil, fmt.Errorf("alerts.to[%d]: %w", i, err)
			}
			if slices.ContainsFunc(all, func(other target) bool { return other.raw == t.raw }) {
				continue
			}
			if named[t.label]++; named[t.label] > 1 {
				t.label += fmt.Sprintf(" (%d)", named[t.label])
			}
			all = append(all, t)
		}
	}
	return all, nil
}

func parse(address string) (t target, err error) {
	u, err := url.Parse(address)
	if (err != nil || u.Scheme == "" || u.Scheme == "mailto") && strings.Contains(address, "@") {
		return t, errors.New("alerts: an email address needs its server: write " +
			"smtp://mail.example.org:587/?from=SENDER&to=ADDRESS")
	}
	if err == nil && u.Hostname() == "hooks.slack.com" && u.Scheme == "https" {
		return t, errors.New("alerts: write slack+ before a Slack URL: slack+https://hooks.slack.com/services/…")
	}
	if err != nil || u.Scheme == "" {
		return t, errors.New("alerts: must be like smtp://… or webhook+https://…")
	}
	t.scheme, _, _ = strings.Cut(strings.ToLower(u.Scheme), "+")
	if t.scheme == "http" || t.scheme == "https" {
		return t, errors.New("alerts: write webhook+ before a web hook's URL: webhook+https://…")
	}
	kind, known := services[t.scheme]
	if !known {
		return t, fmt.Errorf("alerts: unknown kind of channel: use %s, or webhook+https://… for anything else",
			strings.Join(slices.Sorted(kindsOfChannels), ", "))
	}
	options, err := optionsOf(u)
	if err != nil {
		return t, err
	}
	t.kinds, t.secret, t.label = options.kinds, options.secret, cmp.Or(options.name, nameOf(t.scheme, u))
	u.Fragment, u.RawFragment = "", ""
	t.raw, t.url = u.String(), u
	if t.make, err = kind(t); err != nil {
		return t, fmt.Errorf("alerts: the address of a channel (%s) cannot be used: %s", t.scheme, t.redact(err))
	}
	if t.secret != "" && t.scheme != "webhook" {
		return t, fmt.Errorf("alerts: the address of a channel (%s) cannot have a secret: only webhook+https:// has one",
			t.scheme)
	}
	return t, nil
}

// nameOf returns the name of a channel without one. For some kinds even the host is a secret.
func nameOf(scheme string, u *url.URL) string {
	if !slices.Contains(hostIsPublic, scheme) {
		return scheme
	}
	return scheme + " " + events.Escape(u.Hostname())
}

type options struct {
	kinds        []Kind
	secret, name string
}

var channelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}$`)

// optionsOf parses the fragment of an address, which no server receives.
func optionsOf(u *url.URL) (o options, err error) {
	for part := range strings.SplitSeq(u.EscapedFragment(), "&") {
		key, value, _ := strings.Cut(part, "=")
		if value, err = url.PathUnescape(value); err != nil {
			return o, errors.New("alerts: the part after # cannot be parsed")
		}
		switch key {
		case "":
		case "secret":
			o.secret = value
		case "name":
			if !channelName.MatchString(value) {
				return o, errors.New("alerts: #name= must be at most 40 letters, digits, spaces, dots, - and _")
			}
			o.name = value
		case "kinds":
			for kind := range strings.SplitSeq(value, ",") {
				if !kindPattern.MatchString(kind) {
					return o, errors.New("alerts: #kinds= must be kinds of alerts, such as captcha-mode-on,attack-ended")
				}
				o.kinds = append(o.kinds, Kind(kind))
			}
		default:
			return o, errors.New("alerts: only name=…, kinds=… and secret=… can follow the # of an address")
		}
	}
	return o, nil
}

var kindPattern = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)

// several are the parameters with recipients. Each becomes a channel: otherwise one rejected recipient repeats the
// message to all.
var several = map[string][]string{"smtp": {"to", "toaddresses"}, "smtps": {"to", "toaddresses"},
	"telegram": {"chats", "channels"}}

func expand(address string) []string {
	u, err := url.Parse(address)
	if err != nil || several[u.Scheme] == nil {
		return []string{address}
	}
	query := u.Query()
	for _, key := range several[u.Scheme] {
		if len(query[key]) != 1 {
			continue
		}
		var list []string
		for one := range strings.SplitSeq(query.Get(key), ",") {
			query.Set(key, strings.TrimSpace(one))
			u.RawQuery = query.Encode()
			list = append(list, u.String())
		}
		return list
	}
	return []string{address}
}

// redacting keeps the secrets of an address out of errors.
type redacting struct {
	target
	sender
}

var anyURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]*`)

// hostIsPublic are the kinds whose host is a server's name. For others, such as discord, it is part of the key.
var hostIsPublic = []string{"smtp", "smtps", "generic", "webhook", "ntfy"}

// advice is an error in our own words. It contains nothing of an address, so nothing in it is masked: a path /hook must
// not change "web hook".
type advice string

func (a advice) Error() string { return string(a) }

// redact removes secret parts of the address from an error: libraries put whole addresses into errors.
func (t *target) redact(err error) string {
	if own, is := err.(advice); is {
		return string(own)
	}
	text := anyURL.ReplaceAllString(err.Error(), "(address)")
	for _, secret := range t.secrets() {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return events.EscapeLines(strings.ReplaceAll(text, "\n", "; "), 1, 300)
}

// secrets returns the secret parts of the address, longest first, raw and decoded. It skips very short ones.
func (t *target) secrets() []string {
	parts := []string{t.raw, t.secret, strings.TrimPrefix(t.secret, "whsec_"), t.url.Path, t.url.RawQuery, t.url.Opaque}
	parts = append(parts, strings.Split(t.url.Path, "/")...)
	parts = append(parts, strings.Split(t.url.EscapedPath(), "/")...)
	if !slices.Contains(hostIsPublic, t.scheme) {
		parts = append(parts, t.url.Host, t.url.Hostname())
	}
	if t.url.User != nil {
		password, _ := t.url.User.Password()
		parts = append(parts, t.url.User.String(), t.url.User.Username(), password)
	}
	for _, values := range t.url.Query() {
		parts = append(parts, values...)
	}
	for _, p := range slices.Clone(parts) {
		parts = append(parts, url.QueryEscape(p), url.PathEscape(p))
	}
	parts = slices.DeleteFunc(parts, func(p string) bool { return len(p) < 4 })
	slices.SortFunc(parts, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return slices.Compact(parts)
}
