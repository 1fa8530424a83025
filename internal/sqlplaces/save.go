package sqlplaces

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"

	"authguard/internal/changes"
	"authguard/internal/sqltx"
	"authguard/trusted"
)

// save writes the difference between two records in one transaction, or
// nothing if there is none, and notes in after what was written.
func (s *Store) save(ctx context.Context, c change, before, after *trusted.Record) error {
	d := differ(before, after)
	d.reset, d.loses = after.Reset, c.forgets || len(d.gone) > 0 || before.Reset != after.Reset
	if len(d.put) == 0 && !d.loses {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	if err := sqltx.Run(ctx, s.config.DB, func(tx *sql.Tx) error { return d.write(ctx, tx, c) }); err != nil {
		return fmt.Errorf("write places: %w", err)
	}
	for _, e := range d.put {
		e.Saved = e.Last
	}
	return nil
}

// A difference is what one record has and another had: entries to put, which
// belong to the newer record, and places that are gone.
type difference struct {
	put   []*trusted.Entry
	gone  []trusted.Key
	reset int64
	loses bool // other processes must look again
}

func differ(before, after *trusted.Record) (d difference) {
	old := make(map[trusted.Key]trusted.Entry, len(before.Entries))
	for _, e := range before.Entries {
		old[e.Place] = e
	}
	for i := range after.Entries {
		e := &after.Entries[i]
		was, known := old[e.Place]
		if !known || was.Status != e.Status || e.Last-e.Saved >= saveEvery.Milliseconds() {
			d.put = append(d.put, e)
		}
		delete(old, e.Place)
	}
	for place := range old {
		d.gone = append(d.gone, place)
	}
	// Nodes that write the same account lock its rows in one order.
	slices.SortFunc(d.gone, func(a, b trusted.Key) int { return bytes.Compare(a[:], b[:]) })
	slices.SortFunc(d.put, func(a, b *trusted.Entry) int { return bytes.Compare(a.Place[:], b.Place[:]) })
	return d
}

func (d difference) write(ctx context.Context, tx *sql.Tx, c change) error {
	account := hex.EncodeToString(c.account[:])
	if c.forgets && c.place == (trusted.Key{}) {
		if _, err := tx.ExecContext(ctx, deleteAll, account); err != nil {
			return err
		}
	}
	for _, place := range append(d.gone, c.place) { // no row has the zero place
		if _, err := tx.ExecContext(ctx, deletePlace, account, hex.EncodeToString(place[:])); err != nil {
			return err
		}
	}
	for _, e := range d.put {
		if _, err := tx.ExecContext(ctx, upsertPlace, account, hex.EncodeToString(e.Place[:]), e.Status, e.First, e.Last); err != nil {
			return err
		}
	}
	if !d.loses {
		return nil
	}
	if _, err := tx.ExecContext(ctx, upsertReset, account, d.reset, c.now.UnixMilli()); err != nil {
		return err
	}
	return changes.Bump(ctx, tx, changes.Places)
}
