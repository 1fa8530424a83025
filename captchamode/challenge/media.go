package challenge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

var (
	// ErrGone means that the challenge is spent, has expired, or was never issued.
	ErrGone = errors.New("challenge: no such challenge")
	// ErrBusy means that too many images or audio files are being rendered for this IP address, or that this one was
	// fetched too often.
	ErrBusy = errors.New("challenge: too many challenges are being rendered")
)

// Media is a rendered image or audio.
type Media struct {
	Type string // the content type
	Body []byte
}

var mediaTypes = map[string]string{"png": "image/png", "wav": "audio/wav"}

// Media returns a challenge that can still be solved as "png" or "wav". It renders each once and completely before
// sending it, so slow clients block no others. The error is [ErrGone], [ErrBusy], the context's, or the store's.
func (d *Issuer) Media(ctx context.Context, id, ext string) (Media, error) {
	s, reason := d.find(id)
	if reason != Unchecked || mediaTypes[ext] == "" || !d.illustrated(s) {
		return Media{}, ErrGone
	}
	spent, err := d.spent.Seen(ctx, s.nonce, s.expires)
	if err != nil {
		return Media{}, fmt.Errorf("challenge: looking for a spent challenge: %w", err)
	}
	if spent {
		return Media{}, ErrGone
	}
	body, err := d.galleries[ext].get(ctx, &s, func() ([]byte, error) { return d.render(&s, ext) })
	return Media{Type: mediaTypes[ext], Body: body}, err
}

func (d *Issuer) render(s *sealed, ext string) ([]byte, error) {
	var body bytes.Buffer
	picture := d.makers.Load().picture // not nil: the challenge is illustrated
	if err := picture.Render(&body, d.sealer.task(*s, picture.Kind()).Seed, ext); err != nil {
		return nil, fmt.Errorf("challenge: rendering a challenge: %w", err)
	}
	return body.Bytes(), nil
}
