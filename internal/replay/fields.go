package replay

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The fields of a row. Those before lastField may have other names.
const (
	timeField = iota
	accountField
	addressField
	outcomeField
	deviceField
	identityField
	countField
	lastField
	kindField
	fieldCount
)

// names lists each field's name and its other names in canonical form: those of the Elastic Common Schema, of nginx's
// variables, and common ones. If a line has several, the first listed wins.
func names() [lastField][]string {
	return [...][]string{
		{"time", "timestamp", "@timestamp", "ts", "at", "date", "datetime", "time_local", "time_iso8601", "msec",
			"login_timestamp"},
		{"account", "user", "username", "user_name", "login", "email", "user_email", "user_id", "userid", "remote_user",
			"name"},
		{"address", "ip", "addr", "ip_address", "remote_addr", "remote_ip", "client_ip", "clientip", "source_ip",
			"src_ip", "source_address", "client_address"},
		{"outcome", "result", "success", "succeeded", "successful", "login_successful", "event_outcome", "status",
			"decision", "ok"},
		{"device", "device_id"},
		{"fingerprint", "user_agent", "http_user_agent", "useragent", "user_agent_original", "agent", "ua"},
		{"count"},
	}
}

func fieldNames() (all []string) {
	for _, field := range names() {
		all = append(all, field[0])
	}
	slices.Sort(all)
	return all
}

type fields struct {
	of               map[string]int // by canonical name
	rank             map[string]int // the smallest of several names wins
	success, failure []string
	zone             *time.Location
	audit            bool
}

func newFields(c Config, audit bool) *fields {
	f := &fields{of: map[string]int{}, rank: map[string]int{}, success: c.Success, failure: c.Failure, zone: c.Zone,
		audit: audit}
	if audit {
		f.of = map[string]int{
			"at": timeField, "last": lastField, "account": accountField, "address": addressField, "decision": outcomeField,
			"count": countField, "kind": kindField, "fingerprint": identityField,
			"time": timeField, "code": outcomeField, "times": countField, // as in the CSV
		}
		return f
	}
	for i, field := range names() {
		if own, ok := c.Fields[field[0]]; ok {
			f.of[canonical(own)] = i
			continue
		}
		for rank, name := range field {
			f.of[name], f.rank[name] = i, rank+1
		}
	}
	for _, own := range c.Fields { // a configured name wins over another field's default name
		f.rank[canonical(own)] = 0
	}
	return f
}

// canonical returns a name in lower case, with _ between its words.
func canonical(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r == ' ' {
			return '_'
		}
		return r
	}, strings.ToLower(strings.TrimSpace(name)))
}

type values struct {
	text [fieldCount]string
	rank [fieldCount]int // rank of the name it had, plus 1; 0: none
}

// set keeps a value if its name belongs to a field and no better name was seen.
func (f *fields) set(v *values, name, text string) {
	field, ok := f.of[name]
	if rank := f.rank[name] + 1; ok && (v.rank[field] == 0 || rank < v.rank[field]) {
		v.text[field], v.rank[field] = text, rank
	}
}

func (f *fields) row(v *values, r *row) (err error) {
	if f.audit && v.text[kindField] != "attempt" {
		return nil
	}
	if r.At, err = f.time(v.text[timeField]); err != nil {
		return err
	}
	if f.audit && v.text[lastField] != "" {
		if r.last, err = f.time(v.text[lastField]); err != nil {
			return err
		}
	}
	if r.Outcome, err = f.outcome(v.text[outcomeField]); err != nil {
		return err
	}
	if r.Address, err = f.address(v.text[addressField]); err != nil {
		return err
	}
	count := 1
	if text := v.text[countField]; text != "" {
		if count, err = strconv.Atoi(text); err != nil || count < 1 || count > 1e9 {
			return fmt.Errorf("count %q must be a number of at least 1", text)
		}
	}
	r.Account, r.Named = v.text[accountField], v.rank[accountField] > 0
	r.Device, r.Client, r.count = v.text[deviceField], v.text[identityField], count
	return nil
}

// address parses an IP address. In the audit log it may be the network of an aggregated row.
func (f *fields) address(text string) (netip.Addr, error) {
	if f.audit {
		if text == "" || text == "unknown" {
			return netip.Addr{}, nil
		}
		if network, err := netip.ParsePrefix(text); err == nil {
			return network.Addr(), nil
		}
	}
	if text == "" {
		return netip.Addr{}, errors.New("no address: set its field with --field address=NAME")
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return a, nil
	}
	if a, err := netip.ParseAddrPort(text); err == nil {
		return a.Addr(), nil
	}
	return netip.Addr{}, fmt.Errorf("%q is not an IP address", clip(text))
}

func (f *fields) outcome(text string) (Outcome, error) {
	word := strings.ToLower(strings.TrimSpace(text))
	switch {
	case slices.Contains(f.success, text) || slices.Contains(f.success, word):
		return Succeeded, nil
	case slices.Contains(f.failure, text) || slices.Contains(f.failure, word):
		return Failed, nil
	}
	switch word {
	case "true", "1", "yes", "ok", "success", "succeeded", "successful", "accepted", "allowed", "passed":
		return Succeeded, nil
	case "false", "0", "no", "fail", "failed", "failure", "denied", "invalid", "wrong", "rejected", "insufficient":
		return Failed, nil
	case "challenge", "challenged", "block", "refused", "wait", "delay", "delayed", "blocked", "stopped", "abandoned",
		"withdrawn", "fake-failure":
		return Stopped, nil
	case "":
		return Failed, errors.New("no outcome: set its field with --field outcome=NAME")
	}
	return Failed, fmt.Errorf("unknown outcome %q: set it with --success or --failure", clip(text))
}

func layouts() [7]string {
	return [...]string{
		time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999",
		"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999 -0700",
		"2006-01-02 15:04:05.999999999 -0700 MST", accessTime,
	}
}

// time parses a text, or a number of seconds or milliseconds since 1970.
func (f *fields) time(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, errors.New("no time: set its field with --field time=NAME")
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 && seconds < 1e14 {
		if seconds > 1e11 {
			return time.UnixMilli(int64(seconds)).UTC(), nil
		}
		return time.UnixMicro(int64(seconds * 1e6)).UTC(), nil
	}
	for _, layout := range layouts() {
		if at, err := time.ParseInLocation(layout, text, f.zone); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("time %q must be like 2026-10-10T13:55:36Z", clip(text))
}

func clip(text string) string { return text[:min(len(text), 60)] }
