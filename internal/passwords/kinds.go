package passwords

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"strings"
)

// A kind is one form of password hash.
type kind struct {
	name   string // for administrators
	prefix string // of every such hash
	// form parses a hash: a group for each number, in order, and the groups salt and key. Nil: such hashes are
	// recognized, but cannot be checked.
	form *regexp.Regexp
	// salt and key decode the two; nil: no encoding.
	salt, key func(string) ([]byte, error)
	number    func(string) (int, error)
	// bounds returns errCost, or errForm for invalid numbers (R19); nil: there are no numbers.
	bounds func(n [3]int) error
	// derive returns the key of a password with this salt and these numbers.
	derive func(h *Hash, password []byte) []byte
	quoted bool // PHP may have added backslashes to the password before hashing
	weak   bool // an attacker with the table recovers most passwords quickly
}

// kinds are tried in order, with the unsupported ones last. The forms are those of crypt(5), PHC, passlib, Django,
// Werkzeug (Flask), WordPress, phpass and Apache.
var kinds = [...]kind{
	{name: "bcrypt", prefix: "$2", form: form(`\$2[aby]\$#\$` + salt22 + key31), bounds: bcryptBounds, derive: bcryptKey},
	{name: "bcrypt", prefix: "bcrypt$", form: form(`bcrypt\$\$2[aby]\$#\$` + salt22 + key31), bounds: bcryptBounds,
		derive: bcryptKey},
	{name: "bcrypt of SHA-256", prefix: "bcrypt_sha256$", form: form(`bcrypt_sha256\$\$2[aby]\$#\$` + salt22 + key31),
		bounds: bcryptBounds, derive: bcryptOfSHA256},
	{name: "WordPress bcrypt", prefix: "$wp$2", form: form(`\$wp\$2[aby]\$#\$` + salt22 + key31), bounds: bcryptBounds,
		derive: bcryptOfSHA384, quoted: true},
	{name: "Argon2id", prefix: "$argon2id$", form: form(`\$argon2id` + argon2Form), salt: raw64, key: raw64,
		bounds: argon2Bounds, derive: argon2id},
	{name: "Argon2i", prefix: "$argon2i$", form: form(`\$argon2i` + argon2Form), salt: raw64, key: raw64,
		bounds: argon2Bounds, derive: argon2i},
	{name: "Argon2d", prefix: "$argon2d$", form: form(`\$argon2d` + argon2Form), salt: raw64, key: raw64,
		bounds: argon2Bounds, derive: argon2d},
	{name: "Argon2id", prefix: "argon2$argon2id$", form: form(`argon2\$argon2id` + argon2Form), salt: raw64, key: raw64,
		bounds: argon2Bounds, derive: argon2id},
	{name: "Argon2i", prefix: "argon2$argon2i$", form: form(`argon2\$argon2i` + argon2Form), salt: raw64, key: raw64,
		bounds: argon2Bounds, derive: argon2i},
	{name: "Argon2d", prefix: "argon2$argon2d$", form: form(`argon2\$argon2d` + argon2Form), salt: raw64, key: raw64,
		bounds: argon2Bounds, derive: argon2d},
	{name: "scrypt", prefix: "$scrypt$", form: form(`\$scrypt\$ln=#,r=#,p=#\$(?<salt>[^$]*)\$(?<key>[^$]+)`), salt: raw64,
		key: raw64, bounds: scryptLogBounds, derive: scryptLogKey},
	{name: "scrypt", prefix: "scrypt$", form: form(`scrypt\$#\$(?<salt>[^$]+)\$#\$#\$(?<key>[^$]+)`), key: raw64,
		bounds: scryptBounds, derive: scryptKey},
	{name: "scrypt", prefix: "scrypt:", form: form(`scrypt:#:#:#\$(?<salt>[^$]+)\$(?<key>[^$]+)`), key: hex.DecodeString,
		bounds: scryptBounds, derive: scryptKey},
	{name: "PBKDF2-SHA256", prefix: "pbkdf2_sha256$", form: form(`pbkdf2_sha256\$#\$(?<salt>[^$]+)\$(?<key>[^$]+)`),
		key: raw64, bounds: pbkdf2Bounds, derive: pbkdf2Key(sha256.New)},
	{name: "PBKDF2-SHA1", prefix: "pbkdf2_sha1$", form: form(`pbkdf2_sha1\$#\$(?<salt>[^$]+)\$(?<key>[^$]+)`), key: raw64,
		bounds: pbkdf2Bounds, derive: pbkdf2Key(sha1.New)},
	{name: "PBKDF2-SHA256", prefix: "$pbkdf2-sha256$", form: form(`\$pbkdf2-sha256\$#\$(?<salt>[^$]*)\$(?<key>[^$]+)`),
		salt: dotted64, key: dotted64, bounds: pbkdf2Bounds, derive: pbkdf2Key(sha256.New)},
	{name: "PBKDF2-SHA512", prefix: "$pbkdf2-sha512$", form: form(`\$pbkdf2-sha512\$#\$(?<salt>[^$]*)\$(?<key>[^$]+)`),
		salt: dotted64, key: dotted64, bounds: pbkdf2Bounds, derive: pbkdf2Key(sha512.New)},
	{name: "PBKDF2-SHA1", prefix: "$pbkdf2$", form: form(`\$pbkdf2\$#\$(?<salt>[^$]*)\$(?<key>[^$]+)`), salt: dotted64,
		key: dotted64, bounds: pbkdf2Bounds, derive: pbkdf2Key(sha1.New)},
	{name: "PBKDF2-SHA256", prefix: "pbkdf2:sha256:", form: form(`pbkdf2:sha256:#\$(?<salt>[^$]+)\$(?<key>[^$]+)`),
		key: hex.DecodeString, bounds: pbkdf2Bounds, derive: pbkdf2Key(sha256.New)},
	{name: "SHA-512 crypt", prefix: "$6$", form: form(`\$6\$` + shaCrypt + `{86})`), bounds: shaCryptBounds,
		derive: shaCryptKey(sha512.New)},
	{name: "SHA-256 crypt", prefix: "$5$", form: form(`\$5\$` + shaCrypt + `{43})`), bounds: shaCryptBounds,
		derive: shaCryptKey(sha256.New)},
	{name: "yescrypt", prefix: "$y$", form: form(`\$y\$j~~\$(?<salt>[./0-9A-Za-z]{1,86})\$(?<key>[./0-9A-Za-z]{43})`),
		number: cryptDigit, bounds: yescryptBounds, derive: yescryptKey},
	{name: "phpass", prefix: "$P$", form: form(`\$P\$~(?<salt>[./0-9A-Za-z]{8})(?<key>[./0-9A-Za-z]{22})`),
		number: cryptDigit, bounds: phpassBounds, derive: phpassKey, quoted: true},
	{name: "phpass", prefix: "$H$", form: form(`\$H\$~(?<salt>[./0-9A-Za-z]{8})(?<key>[./0-9A-Za-z]{22})`),
		number: cryptDigit, bounds: phpassBounds, derive: phpassKey, quoted: true},
	{name: "Apache MD5 (apr1)", prefix: "$apr1$", form: form(`\$apr1\$` + md5Crypt), derive: md5CryptKey("$apr1$"),
		weak: true},
	{name: "MD5 crypt", prefix: "$1$", form: form(`\$1\$` + md5Crypt), derive: md5CryptKey("$1$"), weak: true},
	{name: "SHA-1", prefix: "{SHA}", form: form(`\{SHA\}(?<salt>)(?<key>[0-9A-Za-z+/]{27}=)`), key: raw64,
		derive: saltFirst(sha1.New), weak: true},
	{name: "salted SHA-1", prefix: "{SSHA}", form: form(`\{SSHA\}(?<salt>)(?<key>[0-9A-Za-z+/=]+)`), key: raw64,
		derive: saltedSHA1, weak: true},
	{name: "salted SHA-1", prefix: "sha1$", form: form(`sha1\$(?<salt>[^$]*)\$(?<key>[0-9a-f]{40})`),
		key: hex.DecodeString, derive: saltFirst(sha1.New), weak: true},
	{name: "salted MD5", prefix: "md5$", form: form(`md5\$(?<salt>[^$]*)\$(?<key>[0-9a-f]{32})`), key: hex.DecodeString,
		derive: saltFirst(md5.New), weak: true},
	{name: "MD5", form: form(`(?<salt>)(?<key>[0-9a-f]{32})`), key: hex.DecodeString, derive: saltFirst(md5.New),
		quoted: true, weak: true},

	{name: "bcrypt of the broken kind $2x$", prefix: "$2x$"},
	{name: "bcrypt of HMAC-SHA-256 (passlib)", prefix: "$bcrypt-sha256$"},
	{name: "Django crypt", prefix: "crypt$"},
	{name: "Drupal SHA-512", prefix: "$S$"},
	{name: "scrypt of crypt(5)", prefix: "$7$"},
	{name: "gost-yescrypt", prefix: "$gy$"},
	{name: "SHA-1 crypt", prefix: "$sha1$"},
	{name: "Sun MD5", prefix: "$md5"},
	{name: "NT hash", prefix: "$3$"},
	{name: "salted SHA-2 of LDAP", prefix: "{SSHA"},
	{name: "SHA-2 of LDAP", prefix: "{SHA"},
	{name: "a hash of LDAP", prefix: "{"},
	{name: "PBKDF2", prefix: "pbkdf2"},
	{name: "PBKDF2", prefix: "$pbkdf2"},
	{name: "Argon2", prefix: "$argon2"},
	{name: "Argon2", prefix: "argon2$"},
}

// Parts of forms. In a form, # is a decimal number, and ~ is a number as a single digit of crypt(5)'s base64.
const (
	salt22     = `(?<salt>[./0-9A-Za-z]{22})`
	key31      = `(?<key>[./0-9A-Za-z]{31})`
	argon2Form = `\$v=19\$m=#,t=#,p=#\$(?<salt>[^$]*)\$(?<key>[^$]+)`
	shaCrypt   = `(?:rounds=#\$)?(?<salt>[^$:]{0,16})\$(?<key>[./0-9A-Za-z]`
	md5Crypt   = `(?<salt>[^$:]{0,8})\$(?<key>[./0-9A-Za-z]{22})`
)

var cryptText = regexp.MustCompile(`^[./0-9A-Za-z]*$`)

func form(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`^` + strings.NewReplacer("#", `(\d+)`, "~", `([./0-9A-Za-z])`).Replace(pattern) + `$`)
}

// raw64 decodes base64, with or without padding.
func raw64(text string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
}

// dotted64 decodes passlib's base64, which has a dot instead of the plus.
func dotted64(text string) ([]byte, error) { return raw64(strings.ReplaceAll(text, ".", "+")) }

func cryptDigit(text string) (int, error) { return strings.Index(cryptDigits, text), nil }

const cryptDigits = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
