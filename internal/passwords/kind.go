package passwords

import "strings"

// KindOf names the kind of a password hash by its prefix: "bcrypt", or what an
// operator would call it, for messages.
func KindOf(hash string) string {
	for _, kind := range []struct{ prefix, name string }{
		{"$2a$", "bcrypt"}, {"$2b$", "bcrypt"}, {"$2y$", "bcrypt"},
		{"$2x$", "bcrypt of the broken kind $2x$"},
		{"$apr1$", "Apache MD5 (apr1)"}, {"$1$", "MD5 crypt"}, {"$5$", "SHA-256 crypt"}, {"$6$", "SHA-512 crypt"},
		{"{SHA}", "SHA-1"}, {"{SSHA}", "salted SHA-1"}, {"$argon2", "Argon2"}, {"$scrypt$", "scrypt"},
		{"$y$", "yescrypt"}, {"$pbkdf2", "PBKDF2"}, {"pbkdf2_", "Django PBKDF2"}, {"$P$", "phpass"},
	} {
		if strings.HasPrefix(hash, kind.prefix) {
			return kind.name
		}
	}
	if len(hash) == 13 && salted(hash) {
		return "DES crypt"
	}
	return "no known hash (plain text?)"
}
