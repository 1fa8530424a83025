package config

// hidden stands wherever a secret would be printed.
const hidden = "(set)"

// A Secret prints as "(set)" however it is formatted, logged or marshalled, so
// that a Config in a log line gives nothing away.
type Secret string

// Reveal is the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String is "(set)", or empty if the secret is.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString is String, for the verb %#v.
func (s Secret) GoString() string { return `"` + s.String() + `"` }

// MarshalText is String, for JSON and log/slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
