// Package challenge issues challenges, binds each to the address that asked for
// it and to what it is for, and lets it be solved at most once (R17). Everything
// needed to check one is sealed in its ID: nothing is stored until it is spent.
//
// A [Desk] issues and checks; a [Provider] makes one kind of challenge
// (challenge/image, challenge/pow, challenge/remote); a [Spent] remembers which
// were used up.
package challenge

import (
	"context"
	"io"
	"time"
)

// The kinds of challenges.
const (
	KindImage  = "image"  // the built-in one: digits in a picture, or spoken
	KindPoW    = "pow"    // work, which the browser does by itself
	KindBoth   = "both"   // the picture and the work
	KindRemote = "remote" // the widget of a provider on the web
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
	// PoW is set for KindPoW and KindBoth only.
	PoW *PoW `json:"pow,omitempty"`
	// Remote is set for KindRemote only. Its token is the answer.
	Remote *Remote `json:"remote,omitempty"`
}

// Remote is the widget of a provider on the web: Script draws it in an element of
// Class, with SiteKey, Action and Data as its data attributes (Data is Turnstile's
// cdata), and it puts its token into Field of the form around it.
type Remote struct {
	Service string `json:"service"`
	SiteKey string `json:"site_key"`
	Script  string `json:"script"`
	Class   string `json:"class"`
	Field   string `json:"field"`
	Action  string `json:"action,omitempty"`
	Data    string `json:"cdata,omitempty"`
}

// PoW is work: for each part p, counted from 0, find a number n such that the
// first 32 bits of PBKDF2 are less than Below. Its password is Salt, p and n with
// colons between, its salt Salt. The answer is the numbers with dots between.
type PoW struct {
	Algorithm  string `json:"algorithm"` // PBKDF2-SHA-256
	Iterations int    `json:"iterations"`
	Parts      int    `json:"parts"`
	Below      uint32 `json:"below"`
	Salt       string `json:"salt"`
	// Work is how many derivations it takes on average.
	Work int64 `json:"work"`
}

// A Binding is what a challenge is issued for, and all that it is good for: a solve
// for one account, door or address is worth nothing for another. Both are keyed
// digests.
type Binding struct {
	Address [16]byte // who may solve it
	Purpose [16]byte // what they may use it for
	// Level is how often the work is doubled. One that was issued for a lower
	// level is not good for a higher: otherwise cheap ones could be collected.
	Level uint8
	// Charge is what the caller has charged the challenge to. It is sealed in the challenge and
	// returned by [Desk.Check]; a solution needs none.
	Charge Charge
}

// A Charge is the caller's own; the zero Charge is none.
type Charge [18]byte

// A Solution is what came back: input from a stranger.
type Solution struct {
	ID     string
	Answer string // the digits, or what a provider's own widget made
	Work   string // of a challenge with a PoW
}

// MaxAnswer is the longest answer looked at, in bytes.
const MaxAnswer = 8 << 10

// A Seed is what one challenge's answer is made from. It takes the secret to
// derive it, and no two challenges or kinds have the same.
type Seed [32]byte

// A Task is one challenge as its provider sees it.
type Task struct {
	Seed    Seed
	Expires time.Time
	Level   uint8  // see [Bond]
	Work    uint32 // of the Puzzle; for Check only
}

// A Puzzle is a provider's part of a challenge. All but PoW and Remote is sealed in the
// challenge's ID, so no client can ask for it.
type Puzzle struct {
	PoW    *PoW
	Remote *Remote
	// Work is what the PoW asks for.
	Work uint32
	// OrImage offers the built-in image in its stead, and accepts its answer.
	// AndImage asks for it as well.
	OrImage, AndImage bool
}

// A Provider makes and checks one kind of challenge. It remembers nothing: all
// of a challenge follows from its task. Methods are safe for concurrent use.
type Provider interface {
	// Kind is the provider's name, 1 to 8 bytes. It never changes.
	Kind() string
	// Issue makes the puzzle of a task. An error means that the provider is
	// broken, and the built-in one takes its place (R18).
	Issue(ctx context.Context, task Task) (Puzzle, error)
	// Check reports whether the answer solves the task; of a puzzle with work it
	// is the Solve's Work. A wrong or malformed answer is no error: an error
	// means that the provider could not check it, and counts as not solved.
	Check(ctx context.Context, task Task, answer string) (bool, error)
}

// An Illustrated provider can be seen and heard: the built-in image.
type Illustrated interface {
	Provider
	// Render writes the challenge of the seed as "png" or "wav". In one process
	// a seed always looks and sounds the same, so asking twice teaches nothing.
	Render(w io.Writer, seed Seed, ext string) error
}
