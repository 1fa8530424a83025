package config

// synonyms maps other programs' names of a setting, by path or last key, to the line to write instead. A test parses
// each line.
var synonyms = map[string]string{
	"ban_time":        blockEnds,
	"bantime":         blockEnds,
	"lockout_time":    blockEnds,
	"cooloff_time":    blockEnds,
	"find_time":       windowOf,
	"findtime":        windowOf,
	"max_attempts":    accountLimits,
	"max_retries":     accountLimits,
	"maxretry":        accountLimits,
	"failure_limit":   accountLimits,
	"rate_limit":      "limits.address: 10/1m challenge",
	"limits.ip":       "limits.address: 10/1m challenge",
	"limits.user":     accountLimits,
	"limits.username": accountLimits,
	"limits.subnet":   "limits.network: 60/1m challenge",
	"limits.global":   "limits.site: 1000/1h block",
	"trusted_ips":     "trusted_proxies: 127.0.0.1",
	"real_ip":         "trusted_proxies: 127.0.0.1",
	"whitelist":       "lists: [{name: office, file: office.txt, action: allow}] # or: authguard ip allow 192.0.2.0/24",
	"allowlist":       "lists: [{name: office, file: office.txt, action: allow}] # or: authguard ip allow 192.0.2.0/24",
	"ignoreip":        "lists: [{name: office, file: office.txt, action: allow}] # or: authguard ip allow 192.0.2.0/24",
	"blacklist":       "lists: [{name: bad, file: bad.txt, action: block}] # or: authguard ip block 198.51.100.0/24",
	"blocklist":       "lists: [{name: bad, file: bad.txt, action: block}] # or: authguard ip block 198.51.100.0/24",
	"dry_run":         "monitor: true",
	"captcha":         "challenge.kind: both",
	"backend":         "proxy.upstream: http://127.0.0.1:8000",
	"upstream":        "proxy.upstream: http://127.0.0.1:8000",
	"port":            "listen: 127.0.0.1:8080",
	"bind":            "listen: 127.0.0.1:8080",
	"log_level":       "log.level: info",
}

const (
	accountLimits = "limits.account: [5/24h challenge, 100/24h block]"
	blockEnds     = accountLimits + " # a block ends when its window has room"
	windowOf      = accountLimits + " # each limit has its window"
)

var actionSynonyms = map[string]string{
	"deny": "block", "ban": "block", "reject": "block", "drop": "block", "lockout": "block",
	"captcha": "challenge", "fake": "fake-failure", "shadowban": "fake-failure", "tarpit": "fake-failure",
}
