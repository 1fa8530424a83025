package alerts

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"
)

// A target is a channel's address, understood.
type target struct {
	raw    string
	url    *url.URL
	scheme string // without a "+https" behind it
}

// Check reports whether a channel's address can be used, without sending
// anything. The error names no more of the address than its scheme.
func Check(address string) error {
	_, err := parse(address)
	return err
}

func parse(address string) (target, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return target{}, errors.New("alerts: not an address like smtp://… or generic+https://…")
	}
	scheme, _, _ := strings.Cut(strings.ToLower(u.Scheme), "+")
	t := target{raw: address, url: u, scheme: scheme}
	if scheme == "http" || scheme == "https" {
		return target{}, errors.New("alerts: write a webhook as generic+https://…")
	}
	if scheme == "matrix" && u.Host != "" {
		return t, nil // making the service would log in
	}
	_, err = t.service()
	return t, err
}

// service makes a new service for the address.
func (t target) service() (types.Service, error) {
	service, err := new(router.ServiceRouter).NewService(t.scheme)
	if err != nil {
		return nil, errors.New("alerts: an address begins with the kind of its channel, such as smtp:// or slack://, and this one does not")
	}
	u := *t.url
	if strings.Contains(u.Scheme, "+") {
		if u, err = t.custom(service); err != nil {
			return nil, err
		}
	}
	if err := service.Initialize(&u, nil); err != nil {
		return nil, fmt.Errorf("alerts: the address of a channel (%s) cannot be used: %s", t.scheme, t.redact(err))
	}
	return service, nil
}

func (t target) custom(service types.Service) (url.URL, error) {
	from, ok := service.(types.CustomURLService)
	if !ok {
		return url.URL{}, fmt.Errorf("alerts: a channel of kind %s takes no address with a +", t.scheme)
	}
	u := *t.url
	made, err := from.GetConfigURLFromCustom(&u)
	if err != nil {
		return url.URL{}, fmt.Errorf("alerts: the address of a channel (%s) cannot be used: %s", t.scheme, t.redact(err))
	}
	return *made, nil
}

// label names a channel in the log, without anything of its address but the
// kind: in some kinds even the host is a secret.
func label(index int, address string) string {
	scheme, _, _ := strings.Cut(address, ":")
	scheme, _, _ = strings.Cut(scheme, "+")
	return fmt.Sprintf("to[%d] (%s)", index, strings.ToLower(scheme))
}

// expand makes one address per recipient of a mail address with several.
// Otherwise one recipient who is refused would have every try repeated to all
// the others.
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
