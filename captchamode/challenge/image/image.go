// Package image is the built-in challenge: digits in a distorted image, or spoken over noise for users who cannot see
// it. It needs no other service, so every other challenge falls back to it (R18).
//
// It renders with github.com/dchest/captcha, without that library's store, handlers and globals. The digits follow
// from the seed, so nothing is stored. For machine recognition rates, see docs/explanation/challenges.md.
package image

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"authguard/captchamode/challenge"
)

var _ challenge.Illustrated = (*Provider)(nil)

// DefaultDigits is how many digits a challenge has unless Config says otherwise.
const DefaultDigits = 6

// Config configures a Provider. The zero value is the measured default.
type Config struct {
	// Digits in a challenge: 4 to 8; zero: DefaultDigits.
	Digits int
	// Width and Height of the image in pixels; default 240 by 80.
	Width, Height int
	// Lang is the language of the spoken digits: en, ja, pt, ru or zh; default en.
	Lang string
}

var languages = []string{"en", "ja", "pt", "ru", "zh"}

// A Provider renders and checks digits. Safe for concurrent use.
type Provider struct {
	config Config
	modulo uint64
}

// New returns a provider, or all problems with its config.
func New(config Config) (*Provider, error) {
	config.setDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	p := &Provider{config: config, modulo: 1}
	for range config.Digits {
		p.modulo *= 10
	}
	if err := p.tryDrawing(); err != nil {
		return nil, err
	}
	return p, nil
}

func (c *Config) setDefaults() {
	if c.Digits == 0 {
		c.Digits = DefaultDigits
	}
	if c.Width == 0 && c.Height == 0 {
		c.Width, c.Height = 240, 80
	}
	if c.Lang == "" {
		c.Lang = "en"
	}
}

func (c *Config) validate() error {
	var problems []error
	if c.Digits < 4 || c.Digits > 8 {
		problems = append(problems, errors.New("image: digits: must be from 4 to 8"))
	}
	if c.Width < 1 || c.Height < 1 || c.Width > 1000 || c.Height > 1000 {
		problems = append(problems, errors.New("image: width and height: must be from 1 to 1000"))
	}
	if !slices.Contains(languages, c.Lang) {
		problems = append(problems, fmt.Errorf("image: lang: must be one of %v", languages))
	}
	return errors.Join(problems...)
}

// Kind returns [challenge.KindImage].
func (p *Provider) Kind() string { return challenge.KindImage }

// Issue implements [challenge.Provider]. The image is fetched by the challenge's ID.
func (p *Provider) Issue(context.Context, challenge.Task) (challenge.Puzzle, error) {
	return challenge.Puzzle{OrImage: true}, nil
}

// Check compares the digits. It accepts spaces, and the decimal digits of any script.
func (p *Provider) Check(_ context.Context, task challenge.Task, answer string) (bool, error) {
	return matches(p.digits(task.Seed), answer), nil
}

// Render writes the image ("png") or audio ("wav").
func (p *Provider) Render(w io.Writer, seed challenge.Seed, ext string) error {
	switch ext {
	case "png":
		return p.draw(w, seed)
	case "wav":
		return p.speak(w, seed)
	default:
		return fmt.Errorf("image: cannot render %q", ext)
	}
}

// digits returns the digits of a seed, each from 0 to 9. 64 bits modulo a million have a bias of one in 10^13.
func (p *Provider) digits(seed challenge.Seed) []byte {
	rest := binary.BigEndian.Uint64(seed[:8]) % p.modulo
	digits := make([]byte, p.config.Digits)
	for i := range digits {
		digits[len(digits)-1-i] = byte(rest % 10)
		rest /= 10
	}
	return digits
}

// noise returns the name of a seed's distortion. The library mixes it with a random key of the process: an image is
// stable in one process and different in the next.
func noise(seed challenge.Seed) string { return hex.EncodeToString(seed[8:24]) }

// Solution returns the digits of a seed, for tests and measurements.
func (p *Provider) Solution(seed challenge.Seed) string {
	solution := p.digits(seed)
	for i := range solution {
		solution[i] += '0'
	}
	return string(solution)
}
