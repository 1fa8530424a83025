// Package challenge issues challenges, binds each to the address that asked for
// it and to what it is for, and lets it be solved at most once (R17). Everything
// needed to check one is sealed in its ID: nothing is stored until it is spent.
//
// A [Desk] issues and checks; a [Provider] makes one kind of challenge
// (challenge/image, challenge/pow); a [Spent] remembers which were used up.
package challenge

import (
	"context"
	"io"
	"time"
)

// KindImage is the built-in kind: digits in a picture, or spoken. KindPoW is a
// proof of work, which the browser does by itself.
const (
	KindImage = "image"
	KindPoW   = "pow"
)

// A Challenge is what somebody is shown. The JSON form is the `challenge` of the
// HTTP answers.
type Challenge struct {
	// ID is opaque, of one length ([IDLen]) and safe in a path.
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`
	Expires time.Time `json:"expires"`
	// Image and Audio are paths below the site's root; empty if this
	// challenge cannot be seen or heard.
	Image string `json:"image,omitempty"`
	Audio string `json:"audio,omitempty"`
	// PoW is set for KindPoW only.
	PoW *PoW `json:"pow,omitempty"`
}

// PoW are the parameters of a proof of work in the words of the ALTCHA
// protocol: find the number from 0 to MaxNumber for which the hash of Salt
// followed by the number, in decimal, is Challenge.
type PoW struct {
	Algorithm string `json:"algorithm"`
	Challenge string `json:"challenge"`
	MaxNumber int64  `json:"maxnumber"`
	Salt      string `json:"salt"`
	Signature string `json:"signature"`
}

// A Bond is what a challenge is issued for, and all that it is good for: a solve
// for one account, door or address is worth nothing for another. Both are keyed
// digests.
type Bond struct {
	Address [16]byte // who may solve it
	Purpose [16]byte // what they may use it for
}

// A Solve is what came back: input from a stranger.
type Solve struct {
	ID     string
	Answer string
}

// MaxAnswer is the longest answer looked at, in bytes.
const MaxAnswer = 4096

// A Seed is what one challenge's answer is made from. It takes the secret to
// derive it, and no two challenges or kinds have the same.
type Seed [32]byte

// A Puzzle is a provider's part of a challenge.
type Puzzle struct {
	PoW *PoW
	// OrImage offers the built-in image beside it, and accepts its answer. It
	// is sealed in the challenge's ID, so no client can ask for it.
	OrImage bool
}

// A Provider makes and checks one kind of challenge. It remembers nothing: all
// of a challenge follows from its seed. Methods are safe for concurrent use.
type Provider interface {
	// Kind is the provider's name, 1 to 8 bytes. It never changes.
	Kind() string
	// Issue makes the puzzle of a seed. An error means that the provider is
	// broken, and the built-in one takes its place (R18).
	Issue(ctx context.Context, seed Seed, expires time.Time) (Puzzle, error)
	// Check reports whether the answer solves the puzzle of the seed. A wrong or
	// malformed answer is no error: an error means that the provider could not
	// check it, and counts as not solved.
	Check(ctx context.Context, seed Seed, expires time.Time, answer string) (bool, error)
}

// An Illustrated provider can be seen and heard: the built-in image.
type Illustrated interface {
	Provider
	// Render writes the challenge of the seed as "png" or "wav". In one process
	// a seed always looks and sounds the same, so asking twice teaches nothing.
	Render(w io.Writer, seed Seed, ext string) error
}
