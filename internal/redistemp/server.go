// Package redistemp starts redis-servers for tests, until redistest does.
package redistemp

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

type Server struct {
	Addr string
	cmd  *exec.Cmd
}

func free() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func start(dir string, args ...string) *Server {
	for {
		port := free()
		if port > 50000 {
			continue // the cluster bus is 10000 higher
		}
		cmd := exec.Command("redis-server", append([]string{"--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}, args...)...)
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		s := &Server{Addr: fmt.Sprintf("127.0.0.1:%d", port), cmd: cmd}
		c := redis.NewClient(&redis.Options{Addr: s.Addr})
		defer c.Close()
		for range 200 {
			if c.Ping(context.Background()).Err() == nil {
				return s
			}
			time.Sleep(20 * time.Millisecond)
		}
		panic("redis-server does not answer")
	}
}

var (
	mu   sync.Mutex
	one  *Server
	many []*Server
	dirs []string
)

// Main runs the tests and ends the servers.
func Main(m *testing.M) {
	code := m.Run()
	for _, s := range append(many, one) {
		if s != nil {
			s.cmd.Process.Kill()
			s.cmd.Wait()
		}
	}
	for _, d := range dirs {
		os.RemoveAll(d)
	}
	os.Exit(code)
}

func temp() string {
	d, err := os.MkdirTemp("", "redistemp")
	if err != nil {
		panic(err)
	}
	dirs = append(dirs, d)
	return d
}

// Standalone is one server, shared by the tests of a binary.
func Standalone(t testing.TB) *Server {
	mu.Lock()
	defer mu.Unlock()
	if one == nil {
		one = start(temp())
	}
	return one
}

// Client is a new client of the server.
func (s *Server) Client(t testing.TB) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, PoolSize: 60})
	t.Cleanup(func() { c.Close() })
	return c
}

// Cluster is three masters, shared by the tests of a binary.
func Cluster(t testing.TB) []*Server {
	mu.Lock()
	defer mu.Unlock()
	if many != nil {
		return many
	}
	args := []string{"--cluster", "create"}
	for range 3 {
		s := start(temp(), "--cluster-enabled", "yes")
		many = append(many, s)
		args = append(args, s.Addr)
	}
	out, err := exec.Command("redis-cli", append(args, "--cluster-yes")...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "All 16384 slots covered") {
		panic(string(out))
	}
	for _, s := range many {
		c := redis.NewClient(&redis.Options{Addr: s.Addr})
		for !strings.Contains(c.ClusterInfo(context.Background()).Val(), "cluster_state:ok") {
			time.Sleep(20 * time.Millisecond)
		}
		c.Close()
	}
	return many
}

// ClusterClient is a new client of the cluster.
func ClusterClient(t testing.TB) *redis.ClusterClient {
	var addrs []string
	for _, s := range Cluster(t) {
		addrs = append(addrs, s.Addr)
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, PoolSize: 60})
	t.Cleanup(func() { c.Close() })
	return c
}
