package pages

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"authguard/web/texts"
)

// Support looks the attempt up by its time, not by the end of the block.
func TestABlockedClientIsShownTheTimeOfItsAttempt(t *testing.T) {
	t.Parallel()
	blocked := Message{Kind: Blocked, Client: "203.0.113.9", RetryAfter: 12 * time.Hour, RetryAt: noon.Add(12 * time.Hour)}
	page, err := new(LoginPages).Render(LoginView{Message: blocked})
	if err != nil || !bytes.Contains(page, []byte("<strong>203.0.113.9, 2026-03-14 12:00:30 UTC</strong>")) {
		t.Errorf("%v\n%s", err, page)
	}
}

// A page from a skeleton must read exactly like one that is drawn whole,
// whatever was typed.
func TestASkeletonFilledIsThePageDrawnWhole(t *testing.T) {
	t.Parallel()
	set := texts.Standard()
	look := newLook(t, Brand{}, set)
	var kept LoginPages
	typed := rapid.OneOf(
		rapid.String(), rapid.SampledFrom([]string{"", "alice", `"><script>alert(1)</script>`, "slot-goes-here-a", "&amp;", "' onfocus='x"}),
	)
	rapid.Check(t, func(rt *rapid.T) {
		v := LoginView{
			Page:     look.For(rapid.SampledFrom([]string{"en", "fr"}).Draw(rt, "language")),
			Username: typed.Draw(rt, "username"),
			Admin:    rapid.Bool().Draw(rt, "admin"),
			Message: Message{
				Kind:       MessageKind(rapid.IntRange(0, int(SignedOut)).Draw(rt, "kind")),
				Why:        ChallengeWhy(rapid.IntRange(0, int(WhySite)).Draw(rt, "why")),
				RetryAfter: time.Duration(rapid.IntRange(0, 7_200_000).Draw(rt, "ms")) * time.Millisecond,
				RetryAt:    rapid.SampledFrom([]time.Time{{}, noon}).Draw(rt, "at"),
				Client:     rapid.SampledFrom([]string{"", "2001:db8::1"}).Draw(rt, "client"),
			},
			Challenge: rapid.SampledFrom([]Challenge{{}, digits(), work()}).Draw(rt, "challenge"),
		}
		whole, err := render("login", v)
		if err != nil {
			rt.Fatal(err)
		}
		filled, err := kept.Render(v)
		if err != nil {
			rt.Fatal(err)
		}
		if a, b := tokenised(whole), tokenised(filled); a != b {
			rt.Fatalf("drawn whole:\n%s\nfilled:\n%s", a, b)
		}
	})
	n := 0
	kept.skeletons.Range(func(any, any) bool { n++; return true })
	if n > 2*9*4*2*2*2*3*2 { // languages, kinds, reasons, long or short, with an end or none, doors, challenges, named or not
		t.Errorf("%d skeletons are kept", n)
	}
}

// A site that changes its look again and again must not use up memory.
func TestPagesOfAnOldLookAreForgotten(t *testing.T) {
	t.Parallel()
	set := texts.Standard()
	var kept LoginPages
	for range 3 {
		look := newLook(t, Brand{}, set)
		for _, language := range []string{"en", "de"} {
			if _, err := kept.Render(LoginView{Page: look.For(language)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	n := 0
	kept.skeletons.Range(func(any, any) bool { n++; return true })
	if n != 2 {
		t.Errorf("%d skeletons are kept, want those of two languages", n)
	}
}

// tokenised is a page as a browser reads it, one token a line.
func tokenised(page []byte) string {
	var b strings.Builder
	z := html.NewTokenizer(bytes.NewReader(page))
	for z.Next() != html.ErrorToken {
		token := z.Token()
		b.WriteString(token.String() + "\n")
	}
	return b.String()
}
