package wire

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"slices"
)

// net/http forgets in which order headers came. A connection remembers it of the request
// that is being answered, for at most mostOrdered names that somebody asked for: a byte
// each. The next request is not read before that one is answered, whatever has arrived.

// mostOrdered is for how many headers the order can be asked for.
const mostOrdered = 255

// SetOrdered says of which headers the order is to be known; of none, nothing is
// remembered. It holds for requests that begin from now on.
func (l *Listener) SetOrdered(names []string) {
	if names = slices.Clone(names[:min(len(names), mostOrdered)]); len(names) == 0 {
		l.ordered.Store(nil)
		return
	}
	l.ordered.Store(&names)
}

// came notes a header, the first time that it comes.
func (h *head) came(name []byte) {
	for i, wanted := range *h.wanted {
		if len(wanted) == len(name) && bytes.EqualFold([]byte(wanted), name) {
			if !slices.Contains(h.order, uint8(i)) {
				h.order = append(h.order, uint8(i))
			}
			return
		}
	}
}

type connKey struct{}

// WithConn is http.Server.ConnContext for Order.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// Order is which of the headers of SetOrdered came with a request of HTTP/1 to a server
// with WithConn, in their order. It is for the request's handler, while that runs. Of
// HTTP/2 nothing is known: whoever speaks it to us is a proxy, which makes heads of its
// own.
func Order(r *http.Request) (names []string) {
	c, ok := r.Context().Value(connKey{}).(*Conn)
	if !ok || r.ProtoMajor != 1 || c.message.head.wanted == nil {
		return nil
	}
	for _, i := range c.message.head.order {
		names = append(names, (*c.message.head.wanted)[i])
	}
	return names
}
