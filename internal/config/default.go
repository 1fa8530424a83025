package config

import (
	"time"

	"authguard/captchamode"
	"authguard/guard"
)

const day = 24 * time.Hour

// Default is authguard without a file and without variables.
func Default() Config {
	policy := guard.DefaultPolicy()
	return Config{
		Listen:        "127.0.0.1:8080",
		Data:          "./authguard-data",
		Redis:         Redis{Mode: RedisStandalone, Prefix: "ag:", Timeout: 250 * time.Millisecond},
		SecureCookies: SecureAuto,
		Session:       12 * time.Hour,
		Admin:         Admin{Listen: "127.0.0.1:8081", Session: time.Hour},
		Forwarded:     XForwardedFor,
		Accounts:      Accounts{Source: SourceTable},
		Passwords:     Passwords{Cost: 12, Queue: 256, Wait: 3 * time.Second},
		Limits:        defaultLimits(policy),
		Site:          Site{Mode: captchamode.DefaultConfig(), Slow: policy.SiteSlow},
		Challenge:     Challenge{Kind: KindImage, TTL: 5 * time.Minute, PowCost: 100_000},
		Places:        Places{PerAccount: policy.Places.Places, TTL: policy.Places.TTL, DeviceCookie: true},
		Counters:      Counters{Memory: 256 * MiB, SaveEvery: 2 * time.Second},
		Audit:         Audit{Keep: 90 * day, Rows: 5_000_000},
		Log:           Log{Format: FormatText, Level: LevelInfo},
		Alerts:        Alerts{PerHour: 20, Bundle: 30 * time.Second},
	}
}

func defaultLimits(p guard.Policy) Limits {
	return Limits{
		PairDelay:      p.PairDelay,
		Address:        p.Address,
		Network:        p.Network,
		Account:        p.Account,
		PrivilegedPair: p.PrivilegedPair,
		LongestCheck:   p.PendingFor,
		Held:           20_000,
		HeldPerAddress: 100,
	}
}
