package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"authguard/bench/wrk"
)

// A Row is one kind of request with the figures of each path to the app.
type Row struct {
	Scene string
	Ways  []wrk.Figures // no proxy, nginx, ReverseProxy flushing, ReverseProxy, authguard
}

// Run measures every scene. The working folder is the bench module's.
func Run(ctx context.Context, p wrk.Plan) (rows []Row, err error) {
	folder, err := os.MkdirTemp("", "authguard-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	d, err := wrk.NewDriver(folder, p)
	if err != nil {
		return nil, err
	}
	servers, err := start(ctx, folder)
	defer func() {
		for _, s := range servers {
			err = errors.Join(err, s.Stop())
		}
	}()
	if err != nil {
		return nil, err
	}
	for _, s := range scenes() {
		figures, err := d.Turns(ctx, servers, s.Request)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		rows = append(rows, Row{s.name, figures})
	}
	return rows, nil
}

// start starts the app and every path to it, in the order of a Row.
func start(ctx context.Context, folder string) (all []*wrk.Server, err error) {
	modules := map[string]string{"./cmd/authguard": "..", "./proxy/app": ".", "./proxy/bare": "."}
	for what, module := range modules {
		if err := wrk.Build(ctx, module, folder+what[strings.LastIndex(what, "/"):], what); err != nil {
			return nil, err
		}
	}
	add := func(s *wrk.Server, err error) error {
		if err == nil {
			all = append(all, s)
		}
		return err
	}
	if err := add(wrk.Start(ctx, nil, folder+"/app")); err != nil {
		return all, err
	}
	app := strings.TrimSuffix(all[0].URL, "/")
	if err := add(startNginx(ctx, folder, strings.TrimPrefix(app, "http://"))); err != nil {
		return all, err
	}
	for _, args := range [][]string{{app, "flush"}, {app}} {
		if err := add(wrk.Start(ctx, nil, folder+"/bare", args...)); err != nil {
			return all, err
		}
	}
	path := folder + "/authguard.yaml"
	if err := os.WriteFile(path, fmt.Appendf(nil, config, folder, app), 0o600); err != nil {
		return all, err
	}
	return all, add(wrk.Start(ctx, []string{"AUTHGUARD_CONFIG=" + path}, folder+"/authguard", "serve"))
}

// startNginx starts nginx on a free port. nginx does not print its URL.
func startNginx(ctx context.Context, folder, app string) (*wrk.Server, error) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	at, path := socket.Addr().String(), folder+"/nginx.conf"
	err = errors.Join(socket.Close(), os.WriteFile(path, fmt.Appendf(nil, nginx, folder, app, at), 0o600))
	if err != nil {
		return nil, err
	}
	return wrk.StartAt(ctx, "http://"+at+"/", "nginx", "-e", folder+"/error.log", "-p", folder, "-c", path)
}
