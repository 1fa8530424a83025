package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/internal/operation"
	"authguard/web"
)

// MaxSocketPath is the longest path of a unix socket in bytes: sun_path has 108 with the final zero (unix(7)).
const MaxSocketPath = 107

// ErrSocketPath means that a path is too long for a socket.
var ErrSocketPath = errors.New("the path of the data folder is too long for a socket")

// CheckSocketPath returns ErrSocketPath, with advice, for a path that is too long, and another error for a path at
// which there is no socket.
func CheckSocketPath(path string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s is in the way and is no socket: move it elsewhere", path)
	}
	if len(path) <= MaxSocketPath {
		return nil
	}
	return fmt.Errorf("%w: %s has %d bytes, at most %d are possible; set data: to a folder with a shorter path",
		ErrSocketPath, path, len(path), MaxSocketPath)
}

// Listen opens the commands' socket for the server's user and root only. It replaces an existing socket, so the caller
// must hold the data folder's lock to rule out a second server. Closing the listener removes the file.
func Listen(path string) (net.Listener, error) {
	if err := CheckSocketPath(path); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("admin: socket: %w", err)
	}
	listen := net.ListenConfig{Control: private}
	l, err := listen.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("admin: socket: %w", err)
	}
	return l, nil
}

// private gives the socket's file the mode 0600 from its creation. After a chmod, any local user could connect in the
// meantime, and the umask affects the whole process. On Linux, bind takes the mode from the descriptor.
func private(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) { failed = syscall.Fchmod(int(fd), 0o600) })
	return errors.Join(err, failed)
}

// SocketServer serves the API on the commands' socket. The file's permissions are the authentication; the kernel
// identifies the user, whom the audit log shows as "cli:" and the name. Requests have no time limit, because an import
// can take long.
func (a *API) SocketServer() *http.Server {
	e := web.NewEcho("", nil, a.Log)
	a.Routes(e, func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			who, _ := c.Request().Context().Value(peerKey{}).(string)
			c.Set(byKey, operation.By{Who: cmp.Or(who, "unknown"), Fresh: true})
			return next(c)
		}
	})
	return &http.Server{
		Handler: e, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, peer(c))
		},
		ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug),
	}
}

type peerKey struct{}

// peer returns the user at the other end of the socket (SO_PEERCRED).
func peer(c net.Conn) string {
	var credentials *syscall.Ucred
	if socket, ok := c.(*net.UnixConn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) {
				if told, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
					credentials = told
				}
			})
		}
	}
	if credentials == nil {
		return "cli:unknown"
	}
	id := strconv.FormatUint(uint64(credentials.Uid), 10)
	if known, err := user.LookupId(id); err == nil {
		id = known.Username
	}
	return "cli:" + id
}
