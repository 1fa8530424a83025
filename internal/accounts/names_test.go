package accounts_test

import (
	"strings"
	"testing"
	"unicode"

	"authguard/guard"
	"authguard/internal/database/databasetest"
)

// What guard's normaliser keeps apart, no LOWER() makes one: else one account
// would have as many counts as its name has spellings. What it makes one is one
// to PostgreSQL, too, in the languages' order and in that of the code points.
func TestR11TheDatabaseTellsTheSameNamesApart(t *testing.T) {
	t.Parallel()
	db := databasetest.Postgres(t)
	var letters []string
	for r := rune(0x80); r <= 0x1ffff; r++ {
		// What an older Unicode, that of the server, does not know yet is left out.
		if unicode.In(r, unicode.L, unicode.M) && (unicode.ToLower(r) != r || unicode.ToUpper(r) != r) {
			letters = append(letters, string(r))
		}
	}
	for _, collation := range []string{"und-x-icu", "C.utf8", "ucs_basic"} {
		rows, err := db.QueryContext(t.Context(), `SELECT x, lower(normalize(x) COLLATE "`+collation+`") FROM unnest(string_to_array($1, ' ')) x`, strings.Join(letters, " "))
		if err != nil {
			t.Fatal(err)
		}
		ours, merged := map[string]string{}, 0 // by theirs
		for rows.Next() {
			var typed, theirs string
			if err := rows.Scan(&typed, &theirs); err != nil {
				t.Fatal(err)
			}
			name, err := guard.NormaliseAccount(typed)
			if err != nil {
				continue // no name, so nobody has two
			}
			if before, ok := ours[theirs]; ok && before != name {
				t.Errorf("%s: %+q is one to the database, and %+q and %+q to us", collation, theirs, before, name)
			}
			ours[theirs] = name
			if name != typed {
				merged++
			}
		}
		if err := rows.Err(); err != nil || merged < 1000 {
			t.Errorf("%s: %d merged, %v", collation, merged, err)
		}
		rows.Close()
		t.Logf("%s: %d letters, %d names", collation, len(letters), len(ours))
	}
}
