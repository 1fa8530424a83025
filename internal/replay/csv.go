package replay

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"strings"
)

// csvLines parses CSV with column names in the first line, separated by commas, semicolons or tabs. Values must not
// contain line breaks.
type csvLines struct {
	*fields
	comma   rune
	columns []string // canonical names
}

func newCSV(f *file, c Config, audit bool) (parser, error) {
	line, _, _, err := f.line()
	if err != nil {
		return nil, err
	}
	f.others++
	p := &csvLines{fields: newFields(c, audit), comma: commaOf(line)}
	if p.columns, err = p.split(bytes.TrimPrefix(line, []byte("\ufeff"))); err != nil {
		return nil, err
	}
	found := [fieldCount]bool{}
	for i, name := range p.columns {
		p.columns[i] = canonical(name)
		if field, ok := p.of[p.columns[i]]; ok {
			found[field] = true
		}
	}
	for _, field := range []int{timeField, addressField, outcomeField} {
		if name := names()[field][0]; !found[field] {
			return nil, fmt.Errorf("no column for %s among %s: set it with --field %s=NAME", name,
				strings.Join(p.columns, ", "), name)
		}
	}
	return p, nil
}

func commaOf(line []byte) rune {
	best, most := ',', bytes.Count(line, []byte(","))
	for _, c := range ";\t" {
		if n := strings.Count(string(line), string(c)); n > most {
			best, most = c, n
		}
	}
	return best
}

func columnsLike(line []byte, f *fields) (found [fieldCount]bool) {
	for name := range strings.SplitSeq(strings.TrimPrefix(string(line), "\ufeff"), string(commaOf(line))) {
		if field, ok := f.of[canonical(strings.Trim(name, `"`))]; ok {
			found[field] = true
		}
	}
	return found
}

func likeCSV(line []byte) bool {
	found := columnsLike(line, newFields(Config{}, false))
	return found[timeField] && found[addressField]
}

func likeAuditCSV(line []byte) bool {
	found := columnsLike(line, newFields(Config{}, true))
	return found[timeField] && found[addressField] && found[kindField] && found[countField]
}

func (p *csvLines) split(line []byte) ([]string, error) {
	if bytes.IndexByte(line, '"') < 0 {
		return strings.Split(string(line), string(p.comma)), nil
	}
	reader := csv.NewReader(bytes.NewReader(line))
	reader.Comma, reader.FieldsPerRecord = p.comma, -1
	record, err := reader.Read()
	if err != nil {
		return nil, errors.New("is not a line of CSV")
	}
	return record, nil
}

func (p *csvLines) parse(line []byte, r *row) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	cells, err := p.split(line)
	if err != nil {
		return err
	}
	if len(cells) != len(p.columns) {
		return fmt.Errorf("has %d columns, but the first line has %d", len(cells), len(p.columns))
	}
	var v values
	for i, cell := range cells {
		p.set(&v, p.columns[i], cell)
	}
	return p.row(&v, r)
}
