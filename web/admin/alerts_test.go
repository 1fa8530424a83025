package admin_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"authguard/internal/alerts"
	"authguard/internal/background"
)

func TestAlertsAreShownAndTested(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	alive := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path }))
	defer alive.Close()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	o := newOffice(t)
	var a struct {
		Channels []alerts.Channel
		Alerts   []alerts.Record
	}
	if o.mustAsk(t, "GET", "/api/alerts", "", &a); len(a.Channels) != 0 || len(a.Alerts) != 0 || a.Alerts == nil {
		t.Errorf("without channels: %+v", a)
	}
	err = o.alerts.Reconfigure(alerts.Config{
		To: []string{"generic+" + alive.URL + "/hunter22", "generic+http://" + dead.Addr().String() + "/hunter22"}, PerHour: 20,
		Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	if err != nil {
		t.Fatal(err)
	}
	o.alerts.Raise("test", "Something happened", "to "+alerts.Name("<img src=x>"))
	background.Go(o.alerts.Run)() // which writes what was raised, and sends it
	if path := <-got; path != "/hunter22" {
		t.Error(path)
	}
	o.mustAsk(t, "GET", "/api/alerts?limit=5", "", &a)
	if len(a.Channels) != 2 || a.Channels[0].State != "working" || a.Channels[1].State != "failing" || a.Channels[1].Waiting != 1 || strings.Contains(a.Channels[1].Why, "hunter22") {
		t.Errorf("%+v", a.Channels)
	}
	if len(a.Alerts) != 1 || a.Alerts[0].Title != "Something happened" || a.Alerts[0].Body != `to "\x3cimg src=x\x3e"` {
		t.Errorf("%+v", a.Alerts)
	}
	var found struct{ Channels []alerts.Tested }
	o.mustAsk(t, "POST", "/api/alerts/test", "{}", &found)
	if len(found.Channels) != 2 || found.Channels[0].Problem != "" || found.Channels[1].Problem == "" || strings.Contains(found.Channels[1].Problem, "hunter22") || len(got) != 1 {
		t.Errorf("%+v", found)
	}
	var record struct {
		Audit []struct{ Decision, Detail string }
	}
	o.mustAsk(t, "GET", "/api/audit?kind=admin&limit=1", "", &record)
	if len(record.Audit) != 1 || record.Audit[0].Decision != "alert-test" || record.Audit[0].Detail != "2 channels, 1 of them failed" {
		t.Errorf("%+v", record)
	}
}
