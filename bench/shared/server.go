package shared

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// connections is the number of goroutines that make attempts in parallel, each over its own connection.
const connections = 50

// A server is a redis-server without persistence.
type server struct {
	addr   string
	folder string
	cmd    *exec.Cmd
	// asking is a connection for INFO and other commands outside of the attempts.
	asking *redis.Client
}

func start(ctx context.Context) (*server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("redis-server is missing: apt-get install redis-server")
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "authguard-bench")
	if err != nil {
		return nil, err
	}
	s := &server{addr: net.JoinHostPort("127.0.0.1", port), folder: folder}
	s.cmd = exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "no")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		_ = os.RemoveAll(folder)
		return nil, err
	}
	s.asking = redis.NewClient(&redis.Options{Addr: s.addr, PoolSize: 1})
	if err := s.answers(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func (s *server) answers(ctx context.Context) (err error) {
	for range 200 {
		if err = s.asking.Ping(ctx).Err(); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("redis-server does not answer: %w", err)
}

func (s *server) stop() {
	_ = s.asking.Close()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.folder)
}

// version is the server's.
func (s *server) version(ctx context.Context) string {
	text, _ := s.asking.Info(ctx, "server").Result()
	return infoOf(text)["redis_version"]
}

// A meter is the server's totals at one time.
type meter struct {
	in, out float64 // bytes over the network
	cpu     float64 // seconds of the server's process, in its code and the kernel's
	scripts float64 // runs of any script
}

func (s *server) read(ctx context.Context) (m meter, err error) {
	text, err := s.asking.Do(ctx, "INFO", "stats", "cpu", "commandstats").Text()
	if err != nil {
		return m, fmt.Errorf("reading the statistics of Redis: %w", err)
	}
	info := infoOf(text)
	number := func(name string) float64 { n, _ := strconv.ParseFloat(info[name], 64); return n }
	m.in, m.out = number("total_net_input_bytes"), number("total_net_output_bytes")
	m.cpu = number("used_cpu_sys") + number("used_cpu_user")
	for _, command := range []string{"eval", "evalsha"} {
		var calls float64
		_, _ = fmt.Sscanf(info["cmdstat_"+command], "calls=%g,", &calls)
		m.scripts += calls
	}
	return m, nil
}

func infoOf(text string) map[string]string {
	info := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// trips counts a client's round trips; it is a redis.Hook.
type trips struct{ n atomic.Int64 }

func (*trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		t.n.Add(1)
		return next(ctx, cmd)
	}
}

func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		t.n.Add(1)
		return next(ctx, cmds)
	}
}
