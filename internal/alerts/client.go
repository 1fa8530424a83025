package alerts

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"authguard/internal/outbox"
	"authguard/internal/times"
)

// maxAnswer limits the response, in bytes.
const maxAnswer = 16 << 10

// errPrivate rejects a webhook in a private network.
var errPrivate = errors.New("the address is in a private network: if that is intended, add the network to " +
	"alerts.private_networks")

// An httpClient is used by all channels over HTTP. It prevents SSRF: an attacker who chooses a webhook or its DNS
// answers must not reach internal services. It checks the IP address when it connects, after DNS resolution, so
// rebinding does not help. It follows no redirects, ignores proxies from the environment and limits responses.
type httpClient struct{ http http.Client }

func newClient(private []netip.Prefix) *httpClient {
	d := net.Dialer{Timeout: outbox.SendTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || !reachable(to.Addr(), private) {
			return errPrivate
		}
		return nil
	}}
	return &httpClient{http.Client{
		Timeout: outbox.SendTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
		Transport: &http.Transport{
			DialContext: d.DialContext, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:   outbox.SendTimeout,
			ResponseHeaderTimeout: outbox.SendTimeout, MaxResponseHeaderBytes: maxAnswer, DisableKeepAlives: true,
			ForceAttemptHTTP2: true,
		},
	}}
}

// reserved are special-purpose networks that netip does not classify (RFC 6890), and those that embed IPv4 addresses
// (NAT64, 6to4, Teredo).
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("100::/64"), netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"),
	netip.MustParsePrefix("::/96"),
}

// reachable reports whether alerts may go to an IP address.
func reachable(a netip.Addr, private []netip.Prefix) bool {
	a = a.Unmap().WithZone("")
	within := func(p netip.Prefix) bool { return p.Contains(a) }
	if slices.ContainsFunc(private, within) {
		return true
	}
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(reserved, within)
}

type call struct {
	url    string
	header http.Header
	body   []byte
	// good checks the response's body if its status is not enough.
	good func(body []byte) error
}

// post sends a request and returns an error unless the response reports success.
func (c *httpClient) post(ctx context.Context, what call) error {
	ctx, cancel := context.WithTimeout(ctx, outbox.SendTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, what.url, bytes.NewReader(what.body))
	if err != nil {
		return err
	}
	r.Header = what.header
	r.Header.Set("User-Agent", "authguard")
	began := time.Now()
	answer, err := c.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("no answer within %s", times.FormatDuration(time.Since(began).Round(time.Second)))
		}
		if asked := (*url.Error)(nil); errors.As(err, &asked) {
			err = asked.Err // without the address
		}
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch {
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		return fmt.Errorf("the server redirects (%d), and redirects are not followed: set the final URL", answer.StatusCode)
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return fmt.Errorf("the server answered %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	case what.good != nil && err == nil:
		return what.good(text)
	}
	return nil
}
