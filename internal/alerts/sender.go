package alerts

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nicholas-fedor/shoutrrr/pkg/types"
)

// maxHanging is how many sends of a channel may hang at the same time.
// Shoutrrr knows no contexts and some of its services no time limit, so a send
// that takes too long is left behind; it ends with its connection.
const maxHanging = 4

var (
	errTimeout = errors.New("alerts: the channel did not answer in time")
	errHanging = errors.New("alerts: the channel never answers; earlier messages still hang")
)

// shoutrrrSender sends through a service that it makes anew for each message:
// some services change themselves while they send.
type shoutrrrSender struct {
	target  target
	hanging chan struct{}
}

func dial(url string) (sender, error) {
	t, err := parse(url)
	if err != nil {
		return nil, err
	}
	return &shoutrrrSender{target: t, hanging: make(chan struct{}, maxHanging)}, nil
}

func (s *shoutrrrSender) send(ctx context.Context, m Message) error {
	select {
	case s.hanging <- struct{}{}:
	default:
		return errHanging
	}
	result := make(chan error, 1)
	go func() {
		defer func() { <-s.hanging }()
		result <- s.deliver(m)
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return errTimeout
	}
}

func (s *shoutrrrSender) deliver(m Message) error {
	service, err := s.target.service()
	if err != nil {
		return err
	}
	params := types.Params{}
	params.SetTitle(m.Title)
	if err := service.Send(m.Body, &params); err != nil && !deliveredAllTheSame(err) {
		return fmt.Errorf("alerts: %s: %s", s.target.scheme, s.target.redact(err))
	}
	return nil
}

// deliveredAllTheSame recognises a mail server that took the mail and then
// hung up instead of saying goodbye. Taking that for a failure would send the
// same mail again and again.
func deliveredAllTheSame(err error) bool {
	text := err.Error()
	return strings.Contains(text, "error closing session") && !strings.Contains(text, "error sending message to recipient")
}
