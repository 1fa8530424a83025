package times_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"

	"authguard/internal/times"
)

const day = 24 * time.Hour

func TestDaysAndWeeksAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"2w": 14 * day, "1d12h": 36 * time.Hour, "1w1d1ms": 8*day + time.Millisecond, "0s": 0, "0": 0,
		"90s": 90 * time.Second, "1.5h": 90 * time.Minute, "5µs": 5 * time.Microsecond, "36499d": 36499 * day,
	} {
		if got, err := times.ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestEverythingElseIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "5", "d", "1d-1h", "1h1d", "1d1w", "-1d", "-1s", "+1s", "1.5d", "99999w", "36500d", "106751d",
		"1d2562047h", "99999999999h", "99999w99999d2562047h", "5 m", "1d 1h", "1D", "1h\n", "0x5s",
	} {
		got, err := times.ParseDuration(text)
		if err == nil {
			t.Errorf("%q was read as %v", text, got)
		} else if !strings.HasPrefix(err.Error(), "must be a duration") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTheErrorShowsOnlyTheBeginningOfALongText(t *testing.T) {
	t.Parallel()
	if _, err := times.ParseDuration(strings.Repeat("x", 1000)); err == nil || len(err.Error()) > 130 {
		t.Errorf("got %v", err)
	}
}

func TestDurationsArePrintedAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", time.Minute: "1m", time.Hour: "1h", day: "24h", 90 * day: "90d", 90 * time.Second: "1m30s",
		10 * time.Minute: "10m", 20 * time.Hour: "20h", time.Hour + time.Second: "1h0m1s", 36 * time.Hour: "36h",
	} {
		if got := times.FormatDuration(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

func TestWhatIsPrintedReadsBackTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.Int64Range(0, int64(36500*day)-1).Draw(t, "d"))
		if got, err := times.ParseDuration(times.FormatDuration(want)); err != nil || got != want {
			t.Fatalf("%s: %v, %v", times.FormatDuration(want), got, err)
		}
	})
}

func TestJSONAndYAMLWriteAndReadText(t *testing.T) {
	t.Parallel()
	type settings struct {
		For times.Duration `json:"for" yaml:"for"`
	}
	want := settings{times.Duration(7 * day)}
	for name, codec := range map[string]struct {
		marshal   func(any) ([]byte, error)
		unmarshal func([]byte, any) error
	}{
		"JSON": {json.Marshal, json.Unmarshal},
		"YAML": {yaml.Marshal, func(data []byte, to any) error { return yaml.Unmarshal(data, to) }},
	} {
		data, err := codec.marshal(want)
		if err != nil || !strings.Contains(string(data), "7d") {
			t.Errorf("%s: %s, %v", name, data, err)
		}
		var got settings
		if err := codec.unmarshal(data, &got); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	kept := want
	if err := json.Unmarshal([]byte(`{"for": "soon"}`), &kept); err == nil || kept != want {
		t.Errorf("got %v, %v", kept, err)
	}
}

func FuzzParseDuration(f *testing.F) {
	f.Add("1w2d3h4m5.6s")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := times.ParseDuration(text)
		if err == nil && (d < 0 || d >= 36500*day) {
			t.Errorf("%q: %d", text, d)
		}
	})
}

func ExampleParseDuration() {
	d, err := times.ParseDuration("1d12h")
	fmt.Println(d, err)
	_, err = times.ParseDuration("a while")
	fmt.Println(err)
	// Output:
	// 36h0m0s <nil>
	// must be a duration such as 30s, 5m, 12h, 7d or 2w, not "a while"
}

func ExampleFormatDuration() {
	fmt.Println(times.FormatDuration(7*24*time.Hour), times.FormatDuration(90*time.Second))
	// Output: 7d 1m30s
}
