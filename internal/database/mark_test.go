package database_test

import (
	"database/sql"
	"slices"
	"testing"

	"authguard/internal/database"
	"authguard/internal/database/databasetest"
)

func TestMarksOfAPrefix(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		for _, what := range []string{"of b", "of a", "of a", "other", "%of c"} {
			if err := database.Mark(t.Context(), db, what); err != nil {
				t.Fatal(err)
			}
		}
		all, err := database.Marks(t.Context(), db, "of ")
		if slices.Sort(all); err != nil || !slices.Equal(all, []string{"a", "b"}) {
			t.Errorf("%q %v", all, err)
		}
	})
}
