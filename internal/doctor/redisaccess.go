package doctor

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"authguard/internal/config"
	"authguard/internal/redisstore"
)

// open looks whether somebody else could use the server too. Whoever can
// writes counters and known places as he likes.
func (r redisConfig) open(ctx context.Context, s redisServer, n *notes) {
	if r.reachOf(ctx, hostOf(s.address)) <= loopback {
		n.ok("redis.open", "is on this machine.")
		return
	}
	if r.Settings.Redis.TLSCert != "" {
		return // and the certificate opens it: nobody else can be tried
	}
	stranger := r.connect(redisstore.Server{Addresses: []string{s.address}})
	defer stranger.Close()
	if err := stranger.Ping(ctx).Err(); err == nil {
		n.problem("redis.open", "Set a password (requirepass, or an ACL user and `user default off`), and redis.password to the same.",
			"lets everybody in who reaches it, without a password: they could forge known places and forget failures.")
		return
	}
	n.ok("redis.open", "lets nobody in without a password.")
}

// plain looks whether somebody on the way could listen.
func (r redisConfig) plain(ctx context.Context, s redisServer, n *notes) {
	if r.tls == nil && r.reachOf(ctx, hostOf(s.address)) == public {
		n.advice("redis.tls", "Switch on TLS in Redis (tls-port) and here (redis.tls: true), or keep the way to it private.",
			"is on no private network and talked to without encryption: the password and every key can be read on the way.")
		return
	}
	n.ok("redis.tls", "is talked to with encryption, or on a network of one's own.")
}

// permitted are the commands that authguard uses, by itself or in scripts, with
// arguments as they come; KEY is one of its keys.
var permitted = []string{
	"PING", "TIME", "GET KEY", "MGET KEY KEY", "EXISTS KEY", "SET KEY 1", "INCR KEY", "DEL KEY", "EXPIRE KEY 1", "PEXPIRE KEY 1",
	"HGET KEY 1", "HMGET KEY 1", "HSET KEY 1 1", "BITFIELD KEY SET u8 0 1", "EVAL 0 1 KEY", "EVALSHA 0 1 KEY",
}

// permittedLua asks the server which of the commands this user may not run; it
// runs none of them. False: the server is older than 7.0 and cannot say.
const permittedLua = `
if not redis.acl_check_cmd then return false end
local missing = {}
for i, line in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(line, '%S+') do words[#words + 1] = word end
  if not redis.acl_check_cmd(unpack(words)) then missing[#missing + 1] = words[1] end
end
return missing`

// commands looks whether the ACL user may do what authguard does. Scripts can
// ask, without the right to look at ACLs, and the right to run them is needed
// anyway.
func (r redisConfig) commands(ctx context.Context, client redis.UniversalClient, n *notes) {
	lines := slices.Clone(permitted)
	if r.Settings.Redis.Mode == config.RedisCluster {
		lines = append(lines, "CLUSTER SLOTS")
	}
	args := make([]any, len(lines))
	for i, line := range lines {
		args[i] = strings.ReplaceAll(line, "KEY", r.Settings.Redis.Prefix+"doctor")
	}
	missing, err := client.Eval(ctx, permittedLua, nil, args...).StringSlice()
	switch {
	case err == redis.Nil:
		n.unasked(r)
	case err != nil:
		n.problem("redis.acl", r.grant(), "does not let its user run scripts (EVAL): %s.", why(err))
	case len(missing) > 0:
		n.problem("redis.acl", r.grant(), "does not let its user run %s on keys that begin with %q.", strings.Join(missing, ", "), r.Settings.Redis.Prefix)
	default:
		n.ok("redis.acl", "lets its user do all that is needed.")
	}
}

// unasked is for a server that cannot tell what a user may do.
func (n *notes) unasked(r redisConfig) {
	if r.Settings.Redis.Username == "" {
		n.ok("redis.acl", "has been asked as its default user.")
		return
	}
	n.advice("redis.acl", r.grant(), "is older than 7.0 and cannot tell whether its user may do all that is needed.")
}

// grant is how to let the user do what it must.
func (r redisConfig) grant() string {
	set := r.Settings.Redis
	rights := "+script|load"
	for _, line := range permitted {
		name, _, _ := strings.Cut(line, " ")
		rights += " +" + strings.ToLower(name)
	}
	if set.Database != 0 {
		rights += " +select"
	}
	if set.Mode == config.RedisCluster {
		rights += " +cluster|slots +cluster|info +cluster|nodes +readonly +command"
	}
	return "As its administrator: ACL SETUSER " + cmp.Or(set.Username, "default") + " ~" + set.Prefix + "* " + rights +
		" (and +info +config|get for these checks), then ACL SAVE or the same in redis.conf."
}
