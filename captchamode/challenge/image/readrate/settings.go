package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"image"
	imagedraw "image/draw"
	"image/png"
	"strconv"
	"strings"

	"github.com/dchest/captcha"

	"authguard/captchamode/challenge"
	ours "authguard/captchamode/challenge/image"
)

// A setting is one way of rendering: "library" is the library's own PNG, "ours" is what is served.
type setting struct {
	digits        int
	width, height int
	drawn         string
}

func (s setting) size() string { return fmt.Sprintf("%dx%d", s.width, s.height) }

var settings = []setting{
	{6, 240, 80, "library"},
	{6, 240, 80, "ours"},
	{5, 240, 80, "ours"},
	{7, 240, 80, "ours"},
	{6, 200, 64, "ours"},
	{6, 200, 80, "ours"},
	{6, 300, 100, "ours"},
	{8, 300, 100, "ours"},
}

// A sample is an image with its solution.
type sample struct {
	picture image.Image
	digits  string
}

func draw(s setting, n int) ([]sample, error) {
	samples := make([]sample, n)
	for i := range samples {
		var err error
		if s.drawn == "library" {
			samples[i] = drawLibrary(s)
		} else if samples[i], err = drawOurs(s); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

func text(digits []byte) string {
	var said strings.Builder
	for _, d := range digits {
		said.WriteString(strconv.Itoa(int(d)))
	}
	return said.String()
}

func drawLibrary(s setting) sample {
	digits := captcha.RandomDigits(s.digits)
	picture := captcha.NewImage(rand.Text(), digits, s.width, s.height)
	white := image.NewRGBA(picture.Bounds())
	imagedraw.Draw(white, white.Bounds(), image.White, image.Point{}, imagedraw.Src)
	imagedraw.Draw(white, white.Bounds(), picture, image.Point{}, imagedraw.Over)
	return sample{white, text(digits)}
}

func drawOurs(s setting) (sample, error) {
	encoded, digits, err := serve(s, "png")
	if err != nil {
		return sample{}, err
	}
	picture, err := png.Decode(bytes.NewReader(encoded))
	return sample{picture, digits}, err
}

func speak(s setting) (wav []byte, digits string, err error) {
	if s.drawn != "library" {
		return serve(s, "wav")
	}
	said := captcha.RandomDigits(s.digits)
	var out bytes.Buffer
	_, err = captcha.NewAudio(rand.Text(), said, "en").WriteTo(&out)
	return out.Bytes(), text(said), err
}

func serve(s setting, ext string) (made []byte, digits string, err error) {
	provider, err := ours.New(ours.Config{Digits: s.digits, Width: s.width, Height: s.height})
	if err != nil {
		return nil, "", err
	}
	var seed challenge.Seed
	rand.Read(seed[:])
	var out bytes.Buffer
	err = provider.Render(&out, seed, ext)
	return out.Bytes(), provider.Solution(seed), err
}
