package redisstore_test

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"authguard/internal/testing/redistest"
)

func redisCLI(t *testing.T, server *redistest.Server, args ...string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(server.Addr)
	must(t, err)
	out, err := exec.Command("redis-cli", append([]string{"-h", host, "-p", port}, args...)...).CombinedOutput()
	must(t, err)
	return strings.TrimSpace(string(out))
}
