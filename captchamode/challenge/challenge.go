// Package challenge issues challenges, binds each to an IP address and a purpose, and accepts at most one solution
// for it (R17). Everything needed to check one is sealed in its ID, so nothing is stored before it is spent.
//
// An [Issuer] issues and checks challenges. A [Provider] creates one kind (challenge/image, challenge/pow,
// challenge/remote). A [Spent] stores which ones are spent.
package challenge

import (
	"context"
	"io"
	"time"
)

// The kinds of challenges.
const (
	KindImage  = "image"  // built-in: an image CAPTCHA or audio CAPTCHA
	KindPoW    = "pow"    // proof of work, which the browser computes
	KindBoth   = "both"   // image CAPTCHA and proof of work
	KindRemote = "remote" // the widget of an external provider
)

// A Challenge is shown to the client. Its JSON form is `challenge` in HTTP responses.
type Challenge struct {
	// ID is opaque, has the fixed length [IDLen], and is safe in a path.
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`
	Expires time.Time `json:"expires"`
	// Image and Audio are absolute paths; empty if this challenge has none.
	Image string `json:"image,omitempty"`
	Audio string `json:"audio,omitempty"`
	// PoW is set for KindPoW and KindBoth only.
	PoW *PoW `json:"pow,omitempty"`
	// Remote is set for KindRemote only. Its token is the answer.
	Remote *Remote `json:"remote,omitempty"`
}

// Remote is the widget of an external provider. Script renders it in an element of Class with SiteKey, Action and
// Data as data attributes (Data is Turnstile's cdata). The widget puts its token in Field of the surrounding form.
type Remote struct {
	Service string `json:"service"`
	SiteKey string `json:"site_key"`
	Script  string `json:"script"`
	Class   string `json:"class"`
	Field   string `json:"field"`
	Action  string `json:"action,omitempty"`
	Data    string `json:"cdata,omitempty"`
}

// PoW is a proof of work. For each part p from 0, find a number n such that the first 32 bits of PBKDF2 are less than
// Below. The password is Salt, p and n, joined by colons; the salt is Salt. The solution is all numbers, joined by
// dots.
type PoW struct {
	Algorithm  string `json:"algorithm"` // PBKDF2-SHA-256
	Iterations int    `json:"iterations"`
	Parts      int    `json:"parts"`
	Below      uint32 `json:"below"`
	Salt       string `json:"salt"`
	// Work is the average number of derivations.
	Work int64 `json:"work"`
}

// A Binding limits a challenge: its solution is not valid for another account, integration or IP address. Address and
// Purpose are keyed digests.
type Binding struct {
	Address [16]byte // client that may solve it
	Purpose [16]byte // what the solution may be used for
	// Level is how often the work is doubled. A challenge of a lower level is not valid at a higher one: otherwise
	// attackers could collect cheap solutions.
	Level uint8
	// ImageSolved, for Issue: the client has solved an image CAPTCHA before, so that only the work is left.
	ImageSolved bool
	// Charge is what the caller has charged the challenge to. [Issuer.Check] returns it from the challenge; a solution
	// needs none.
	Charge Charge
}

// A Charge is the caller's data; the zero Charge means none.
type Charge [18]byte

// A Solution is the client's answer to a challenge: untrusted input.
type Solution struct {
	ID     string
	Answer string // the digits, or the token of a provider's widget
	Work   string // for a challenge with a PoW
}

// MaxAnswer is the maximum length of an answer, in bytes.
const MaxAnswer = 8 << 10

// A Seed determines one challenge's answer. It is derived from the secret, and is different for every challenge and
// kind.
type Seed [32]byte

// A Task is the provider's view of a challenge.
type Task struct {
	Seed    Seed
	Expires time.Time
	Level   uint8  // see [Binding]
	Work    uint32 // from the Puzzle; for Check only
}

// A Puzzle is a provider's part of a challenge. Except PoW and Remote, it is sealed in the ID, so a client cannot
// choose it.
type Puzzle struct {
	PoW    *PoW
	Remote *Remote
	// Work is the work that the PoW requires.
	Work uint32
	// OrImage accepts the built-in image's digits instead. AndImage requires them as well.
	OrImage, AndImage bool
}

// A Provider creates and checks one kind of challenge. It stores nothing: everything follows from the task. Methods
// are safe for concurrent use.
type Provider interface {
	// Kind is the provider's constant name, 1 to 8 bytes.
	Kind() string
	// Issue creates the puzzle of a task. An error means that the provider failed, and the built-in one replaces it
	// (R18).
	Issue(ctx context.Context, task Task) (Puzzle, error)
	// Check reports whether the answer solves the task; for a puzzle with work, answer is Solution.Work. A wrong or
	// malformed answer is no error. An error means that the provider could not check it; it counts as not solved.
	Check(ctx context.Context, task Task, answer string) (bool, error)
}

// An Illustrated provider has an image and audio, like the built-in one.
type Illustrated interface {
	Provider
	// Render writes the challenge of the seed as "png" or "wav". In one process the result for a seed is always the
	// same, so repeated requests reveal nothing.
	Render(w io.Writer, seed Seed, ext string) error
}
