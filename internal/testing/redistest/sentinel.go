package redistest

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// MasterName is what the Sentinels call the master.
const MasterName = "authguard"

// A Watched is a master and a replica that three Sentinels watch.
type Watched struct {
	Master, Replica *Server
	Sentinels       []*Server
}

// Sentinel starts them. Nobody counts as gone, however slow the machine is, before
// Hasty.
func Sentinel(t testing.TB) *Watched {
	t.Helper()
	w := &Watched{Master: Standalone(t, "--repl-diskless-sync-delay", "0")}
	host, port, _ := net.SplitHostPort(w.Master.Addr)
	w.Replica = Standalone(t, "--replicaof", host+" "+port)
	for range 3 {
		s := newServer(t)
		config := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 2\nsentinel down-after-milliseconds %[1]s 3600000\n"+
			"sentinel failover-timeout %[1]s 2000\n", MasterName, host, port)
		if err := os.WriteFile(s.File("sentinel.conf"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		s.args = append([]string{s.File("sentinel.conf"), "--sentinel"}, s.args...)
		s.Start(t)
		w.Sentinels = append(w.Sentinels, s)
	}
	Until(t, "the sentinels to know everybody", func() bool {
		for _, s := range w.Sentinels {
			others := s.Do(t, "SENTINEL", "SENTINELS", MasterName).([]any)
			replicas := s.Do(t, "SENTINEL", "REPLICAS", MasterName).([]any)
			if len(others) != 2 || len(replicas) != 1 {
				return false
			}
		}
		return true
	})
	return w
}

// Hasty makes whoever is silent for half a second count as gone: the Sentinels
// replace a master that is.
func (w *Watched) Hasty(t testing.TB) {
	t.Helper()
	for _, s := range running(w.Sentinels) {
		s.Do(t, "SENTINEL", "SET", MasterName, "down-after-milliseconds", 500)
	}
}

// CatchUp stops writes at the master until it is gone, and waits until its replica
// has all of them: Redis replicates after it has answered, and on a busy machine
// that may be much later.
func (w *Watched) CatchUp(t testing.TB) {
	t.Helper()
	w.Master.Do(t, "CLIENT", "PAUSE", forever.Milliseconds(), "WRITE")
	offset := regexp.MustCompile(`master_repl_offset:(\d+)`)
	Until(t, "the replica to catch up", func() bool {
		info := fmt.Sprint(w.Master.Do(t, "INFO", "replication"))
		at := offset.FindStringSubmatch(info)
		return at != nil && strings.Contains(info, "offset="+at[1]+",")
	})
}

// Addrs are the addresses of the Sentinels.
func (w *Watched) Addrs() (addrs []string) {
	for _, s := range w.Sentinels {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// Client connects to whoever is master.
func (w *Watched) Client(t testing.TB) *redis.Client {
	t.Helper()
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: MasterName, SentinelAddrs: w.Addrs(),
		DialTimeout: forever, ReadTimeout: forever, WriteTimeout: forever, PoolTimeout: forever,
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}
