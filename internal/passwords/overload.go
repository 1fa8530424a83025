package passwords

import (
	"errors"
	"fmt"
	"time"
)

// ErrOverloaded says that there was no room for a check. The error that wraps
// it is an *Overload.
var ErrOverloaded = errors.New("passwords: too many password checks at once")

// An Overload is the error of an attempt that was shed. Nothing was checked.
type Overload struct {
	// RetryAfter is about when the queue will have drained, 1 s to 1 min.
	RetryAfter time.Duration
}

// Error implements error.
func (o *Overload) Error() string {
	return fmt.Sprintf("%v; try again in %v", ErrOverloaded, o.RetryAfter)
}

// Unwrap is ErrOverloaded.
func (o *Overload) Unwrap() error { return ErrOverloaded }
