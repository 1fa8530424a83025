package nodes

import (
	"errors"

	"github.com/redis/go-redis/v9"
)

// refusals are the first words of the answers by which Redis says that it can
// do nothing now.
var refusals = []string{
	"LOADING", "READONLY", "OOM", "MISCONF", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "BUSY",
	"NOAUTH", "WRONGPASS", "NOPERM", "MAX", "ERR max number of clients", "ERR AUTH",
	"ERR invalid password", "ERR Client sent AUTH",
}

// broken reports whether an error says that Redis cannot be used, and not that
// there is no such key or that one command was wrong.
func broken(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) || errors.Is(err, ErrDown) {
		return false
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return true // the connection, or the time
	}
	for _, word := range refusals {
		if redis.HasErrorPrefix(err, word) {
			return true
		}
	}
	return redis.IsOOMError(err)
}
