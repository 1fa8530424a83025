package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonLines parses one JSON object per line. The name of a nested value joins both names: {"source": {"ip": …}} is
// source_ip.
type jsonLines struct {
	*fields
	from    bytes.Reader
	decoder jsontext.Decoder
}

func newJSON(c Config, audit bool) parser { return &jsonLines{fields: newFields(c, audit)} }

func likeJSON(line []byte) bool { return bytes.HasPrefix(line, []byte("{")) }

func likeAuditJSON(line []byte) bool {
	return likeJSON(line) && bytes.Contains(line, []byte(`"kind":"`)) && bytes.Contains(line, []byte(`"at":"`)) &&
		bytes.Contains(line, []byte(`"count":`))
}

func (p *jsonLines) parse(line []byte, r *row) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	p.from.Reset(line)
	p.decoder.Reset(&p.from, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if kind := p.decoder.PeekKind(); kind != '{' {
		return errors.New("is not a JSON object")
	}
	var v values
	if err := p.object(&v, ""); err != nil {
		return fmt.Errorf("is not JSON: %w", err)
	}
	if _, err := p.decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("has text after the JSON object")
	}
	return p.row(&v, r)
}

// object parses an object; prefix precedes its names.
func (p *jsonLines) object(v *values, prefix string) error {
	if _, err := p.decoder.ReadToken(); err != nil {
		return err
	}
	for p.decoder.PeekKind() != '}' {
		token, err := p.decoder.ReadToken()
		if err != nil {
			return err
		}
		name := prefix + canonical(token.String())
		switch p.decoder.PeekKind() {
		case '{':
			if p.decoder.StackDepth() > 8 {
				err = p.decoder.SkipValue()
			} else {
				err = p.object(v, name+"_")
			}
		case '[':
			err = p.decoder.SkipValue()
		default:
			if token, err = p.decoder.ReadToken(); err == nil && token.Kind() != 'n' {
				p.set(v, name, token.String())
			}
		}
		if err != nil {
			return err
		}
	}
	_, err := p.decoder.ReadToken()
	return err
}
