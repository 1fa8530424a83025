package guard

import "crypto/rand"

// Decoy is a text that cannot be the password, to be checked in the password's place
// where the decision is FakeFailure: the check takes as long, whatever the hash, and says
// nothing about the password. It is as long as the password, at least 26 characters.
func Decoy(password string) string {
	text := rand.Text()
	for len(text) < len(password) {
		text += rand.Text()
	}
	return text[:max(26, min(len(text), len(password)))]
}
