package postgrestest_test

import (
	"testing"

	"authguard/internal/testing/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

func TestTwoTestsHaveTwoDatabases(t *testing.T) {
	t.Parallel()
	s := postgrestest.Shared(t)
	if a, b := s.Database(t), s.Database(t); a == b || postgrestest.Shared(t) != s {
		t.Errorf("%s and %s", a, b)
	}
}

func TestAServerHangsDiesAndKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	s := postgrestest.Own(t)
	s.Do(t, "postgres", "CREATE TABLE kept (n INT)")
	s.Stop(t)
	s.Continue(t)
	s.Do(t, "postgres", "INSERT INTO kept VALUES (1)")
	s.Kill()
	s.Start(t)
	s.Do(t, "postgres", "DROP TABLE kept")
}
