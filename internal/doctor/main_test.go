package doctor_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/internal/config"
	"authguard/internal/doctor"
	"authguard/internal/testing/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

const (
	good    = doctor.OK
	advice  = doctor.Advice
	problem = doctor.Problem
)

// whole is a configuration with which nothing is wrong, changed.
func whole(t *testing.T, change func(*config.Config)) doctor.Config {
	t.Helper()
	s := config.Default()
	s.Data = filepath.Join(t.TempDir(), "data")
	s.Redis.Timeout = time.Hour // no test is about speed
	if change != nil {
		change(&s)
	}
	return doctor.Config{Settings: s, Within: time.Hour}
}

// A report is what was found.
type report struct {
	t   *testing.T
	all []doctor.Check
}

func examine(t *testing.T, c doctor.Config) report {
	t.Helper()
	all := doctor.Examine(t.Context(), c)
	for _, one := range all {
		if one.Name == "" || one.Text == "" || strings.Contains(one.Text, "\n") || (one.State == good) != (one.Mend == "") {
			t.Errorf("a check that is not whole: %+v", one)
		}
	}
	return report{t, all}
}

// state is the worst of what a check found.
func (r report) state(name string) (worst doctor.State) {
	for _, one := range r.all {
		if one.Name == name && (worst == "" || worst == good || one.State == problem) {
			worst = one.State
		}
	}
	return worst
}

// wants looks at some checks; "" is one that was not made.
func (r report) wants(want map[string]doctor.State) {
	r.t.Helper()
	for name, state := range want {
		if got := r.state(name); got != state {
			r.t.Errorf("%s is %q, not %q, in:\n%s", name, got, state, r)
		}
	}
}

// says wants texts, whole.
func (r report) says(texts ...string) {
	r.t.Helper()
	for _, text := range texts {
		if !slices.ContainsFunc(r.all, func(c doctor.Check) bool { return c.Text == text }) {
			r.t.Errorf("nothing says %q in:\n%s", text, r)
		}
	}
}

// nothingWrong wants problems nowhere, and advice only there.
func (r report) nothingWrong(advised ...string) {
	r.t.Helper()
	for _, one := range r.all {
		if one.State == problem || one.State == advice && !slices.Contains(advised, one.Name) {
			r.t.Errorf("%+v", one)
		}
	}
	if doctor.Well(r.all) == slices.ContainsFunc(r.all, func(c doctor.Check) bool { return c.State == problem }) {
		r.t.Error("Well does not tell")
	}
}

func (r report) String() string {
	text, err := json.MarshalIndent(r.all, "", " ")
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}
