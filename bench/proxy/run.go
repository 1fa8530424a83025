package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"authguard/bench/wrk"
)

// A Plan is how much is measured.
type Plan struct {
	Rounds int           // of each server in turn
	Takes  time.Duration // one round
}

// Ways are the ways to the app, in the order of a Row.
var Ways = []string{"no proxy", "nginx", "ReverseProxy, flushing", "ReverseProxy", "authguard"}

// A Row is what one kind of request costs each way.
type Row struct {
	Scene string
	// Rate is the median of requests a second, Part that of authguard's part of it in
	// the same round, and CPU that of the microseconds of processor time that the proxy
	// spent on each.
	Rate, Part, CPU []float64
}

// Run measures every scene. The working folder is the bench module's.
func Run(ctx context.Context, p Plan) (rows []Row, err error) {
	folder, err := os.MkdirTemp("", "authguard-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	d, err := wrk.NewDriver(folder, p.Takes)
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
		row, err := s.measure(ctx, p, d, servers)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// measure drives all in turn, after a round that is not counted: it opens the
// connections and, for logins, makes the places known.
func (s scene) measure(ctx context.Context, p Plan, d *wrk.Driver, servers []*wrk.Server) (Row, error) {
	rates, cpus, parts := make([][]float64, len(servers)), make([][]float64, len(servers)), make([][]float64, len(servers))
	for round := range p.Rounds + 1 {
		for i, to := range servers {
			before := to.Spent()
			rate, err := d.Drive(ctx, to.URL+s.path, s.Request)
			if err != nil {
				return Row{}, fmt.Errorf("%s: %w", Ways[i], err)
			}
			if round > 0 {
				rates[i] = append(rates[i], rate)
				cpus[i] = append(cpus[i], float64((to.Spent()-before).Microseconds())/rate/p.Takes.Seconds())
			}
		}
		for i := range servers {
			if round > 0 {
				parts[i] = append(parts[i], rates[len(servers)-1][round-1]/rates[i][round-1])
			}
		}
	}
	row := Row{Scene: s.name}
	for i := range servers {
		row.Rate, row.Part, row.CPU = append(row.Rate, middle(rates[i])), append(row.Part, middle(parts[i])), append(row.CPU, middle(cpus[i]))
	}
	return row, nil
}

// start starts the app and every way to it, in the order of Ways.
func start(ctx context.Context, folder string) (all []*wrk.Server, err error) {
	for what, module := range map[string]string{"./cmd/authguard": "..", "./proxy/app": ".", "./proxy/bare": "."} {
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

// startNginx starts nginx at a free port. It does not say where it is.
func startNginx(ctx context.Context, folder, app string) (*wrk.Server, error) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	at, path := socket.Addr().String(), folder+"/nginx.conf"
	if err := errors.Join(socket.Close(), os.WriteFile(path, fmt.Appendf(nil, nginx, folder, app, at), 0o600)); err != nil {
		return nil, err
	}
	return wrk.StartAt(ctx, "http://"+at+"/", "nginx", "-e", folder+"/error.log", "-p", folder, "-c", path)
}

func middle(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}
