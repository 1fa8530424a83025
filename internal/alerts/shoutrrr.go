package alerts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"

	"authguard/internal/events"
)

// maxHanging is how many sends of a channel may hang at the same time. Shoutrrr
// takes no context, and some of its services have no time limit, so a send that
// takes too long is abandoned; it ends with its connection.
const maxHanging = 4

var (
	errTimeout = errors.New("alerts: the channel did not answer in time")
	errHanging = errors.New("alerts: the channel never answers; earlier messages still hang")
)

// A target is a channel's parsed address and its sender.
type target struct {
	raw     string
	url     *url.URL
	scheme  string // without a "+https" behind it
	hanging chan struct{}
}

func dial(url string) (sender, error) { return parse(url) }

// Check reports whether a channel's address can be used, without sending
// anything. The error reveals no more of the address than its scheme.
func Check(address string) error {
	_, err := parse(address)
	return err
}

func parse(address string) (*target, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return nil, errors.New("alerts: not an address like smtp://… or generic+https://…")
	}
	scheme, _, _ := strings.Cut(strings.ToLower(u.Scheme), "+")
	t := &target{raw: address, url: u, scheme: scheme, hanging: make(chan struct{}, maxHanging)}
	if scheme == "http" || scheme == "https" {
		return nil, errors.New("alerts: write a webhook as generic+https://…")
	}
	if scheme == "matrix" && u.Host != "" {
		return t, nil // making the service would log in
	}
	_, err = t.service()
	return t, err
}

// service makes a new service for the address.
func (t *target) service() (types.Service, error) {
	service, err := new(router.ServiceRouter).NewService(t.scheme)
	if err != nil {
		return nil, errors.New("alerts: an address begins with the kind of its channel, such as smtp:// or slack://, and this one does not")
	}
	u := *t.url
	made := &u
	if strings.Contains(u.Scheme, "+") {
		from, ok := service.(types.CustomURLService)
		if !ok {
			return nil, fmt.Errorf("alerts: a channel of kind %s takes no address with a +", t.scheme)
		}
		made, err = from.GetConfigURLFromCustom(&u)
	}
	if err == nil {
		err = service.Initialize(made, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("alerts: the address of a channel (%s) cannot be used: %s", t.scheme, t.redact(err))
	}
	return service, nil
}

func (t *target) send(ctx context.Context, m message) error {
	select {
	case t.hanging <- struct{}{}:
	default:
		return errHanging
	}
	result := make(chan error, 1)
	go func() {
		defer func() { <-t.hanging }()
		result <- t.deliver(m)
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return errTimeout
	}
}

// deliver makes a new service for each message: some change themselves while
// they send.
func (t *target) deliver(m message) error {
	service, err := t.service()
	if err != nil {
		return err
	}
	params := types.Params{}
	params.SetTitle(m.title)
	if err := service.Send(m.body, &params); err != nil && !deliveredAllTheSame(err) {
		return fmt.Errorf("alerts: %s: %s", t.scheme, t.redact(err))
	}
	return nil
}

// deliveredAllTheSame recognises a mail server that took the mail and then hung
// up instead of saying goodbye. If that counted as a failure, the same mail
// would be sent again and again.
func deliveredAllTheSame(err error) bool {
	text := err.Error()
	return strings.Contains(text, "error closing session") && !strings.Contains(text, "error sending message to recipient")
}

// label names a channel in the log by its index and its kind only: for some
// kinds even the host is a secret.
func label(index int, address string) string {
	scheme, _, _ := strings.Cut(address, ":")
	scheme, _, _ = strings.Cut(scheme, "+")
	return fmt.Sprintf("to[%d] (%s)", index, strings.ToLower(scheme))
}

// expand splits a mail address with several recipients into one address for
// each. Otherwise, while one recipient is refused, every retry would go to all
// of them.
func expand(address string) []string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "smtp" {
		return []string{address}
	}
	query := u.Query()
	for _, key := range slices.Sorted(maps.Keys(query)) {
		values := query[key]
		if k := strings.ToLower(key); (k != "to" && k != "toaddresses") || len(values) != 1 {
			continue
		}
		var list []string
		for one := range strings.SplitSeq(values[0], ",") {
			query.Set(key, strings.TrimSpace(one))
			u.RawQuery = query.Encode()
			list = append(list, u.String())
		}
		return list
	}
	return []string{address}
}

var anyURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]*`)

// hostIsPublic are the kinds whose host is a server's name. In others, such as
// discord or ifttt, it is part of the key.
var hostIsPublic = []string{"smtp", "generic", "gotify", "ntfy", "mattermost", "matrix", "rocketchat", "zulip"}

// redact returns an error's text on one line, without any part of the address
// that could be a secret: services put whole addresses into their errors.
func (t *target) redact(err error) string {
	text := anyURL.ReplaceAllString(err.Error(), "(address)")
	for _, secret := range t.secrets() {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return events.EscapeLines(strings.ReplaceAll(text, "\n", "; "), 1, 300)
}

// secrets are the parts of the address, longest first, as written and as
// decoded. Very short ones are left out: replacing a letter hides nothing.
func (t *target) secrets() []string {
	parts := []string{t.raw, t.url.Path, t.url.RawQuery, t.url.Fragment, t.url.Opaque}
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
