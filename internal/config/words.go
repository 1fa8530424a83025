package config

import "log/slog"

// SecureCookies says when cookies carry the Secure attribute.
type SecureCookies string

// The values of secure_cookies. SecureAuto: when the request came over TLS,
// here or at a configured proxy, or when the origin is https.
const (
	SecureAuto   SecureCookies = "auto"
	SecureAlways SecureCookies = "always"
	SecureNever  SecureCookies = "never"
)

// ForwardedHeader is the header in which the configured proxies name the
// client.
type ForwardedHeader string

// The values of forwarded_header.
const (
	XForwardedFor ForwardedHeader = "x-forwarded-for"
	Forwarded     ForwardedHeader = "forwarded" // RFC 7239
)

// RedisMode is how Redis is run.
type RedisMode string

// The values of redis.mode.
const (
	RedisStandalone RedisMode = "standalone"
	RedisSentinel   RedisMode = "sentinel"
	RedisCluster    RedisMode = "cluster"
)

// AccountSource is where passwords are looked up.
type AccountSource string

// The values of accounts.source.
const (
	SourceTable    AccountSource = "table" // authguard's own
	SourceHtpasswd AccountSource = "htpasswd"
	SourceQuery    AccountSource = "query" // somebody else's table
)

// ChallengeKind is what a stranger has to solve.
type ChallengeKind string

// The values of challenge.kind.
const (
	KindImage ChallengeKind = "image"
	KindPow   ChallengeKind = "pow" // proof of work
)

// LogFormat is the form of the program's log.
type LogFormat string

// The values of log.format.
const (
	FormatText LogFormat = "text"
	FormatJSON LogFormat = "json"
)

// LogLevel is the least important level that is logged.
type LogLevel string

// The values of log.level.
const (
	LevelDebug LogLevel = "debug"
	LevelInfo  LogLevel = "info"
	LevelWarn  LogLevel = "warn"
	LevelError LogLevel = "error"
)

// Slog is the level as package slog knows it; LevelInfo for anything unknown.
func (l LogLevel) Slog() slog.Level {
	switch l {
	case LevelDebug:
		return slog.LevelDebug
	case LevelWarn:
		return slog.LevelWarn
	case LevelError:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}
