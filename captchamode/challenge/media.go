package challenge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrGone means that the challenge is spent, expired, or was never issued.
	ErrGone = errors.New("challenge: no such challenge")
	// ErrBusy means that too many pictures or sounds are being made: try again.
	ErrBusy = errors.New("challenge: too many challenges are being rendered")
)

// renderWait is how long a picture or sound waits for its turn.
const renderWait = 2 * time.Second

// Media is a rendered picture or sound.
type Media struct {
	Type string // the content type
	Body []byte
}

var mediaTypes = map[string]string{"png": "image/png", "wav": "audio/wav"}

// Media renders a challenge that can still be solved, as "png" or "wav". It is
// rendered whole before any of it is sent, so a slow reader holds up nobody. The
// error is [ErrGone], [ErrBusy], the context's, or the store's.
func (d *Desk) Media(ctx context.Context, id, ext string) (Media, error) {
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
	return d.render(ctx, s, ext)
}

func (d *Desk) render(ctx context.Context, s sealed, ext string) (Media, error) {
	turn := d.renders[ext]
	if err := wait(ctx, turn); err != nil {
		return Media{}, err
	}
	defer func() { <-turn }()
	var body bytes.Buffer
	if err := d.builtIn.Render(&body, d.sealer.seed(s, d.builtIn.Kind()), ext); err != nil {
		return Media{}, fmt.Errorf("challenge: rendering a challenge: %w", err)
	}
	return Media{Type: mediaTypes[ext], Body: body.Bytes()}, nil
}

func wait(ctx context.Context, turn chan struct{}) error {
	late := time.NewTimer(renderWait)
	defer late.Stop()
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
		return ErrBusy
	}
}
