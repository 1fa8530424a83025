package pages

import (
	"strings"
	"testing"
	"time"

	"authguard/internal/attacks"
	"authguard/internal/control"
)

// An attack lasts until its last attempt. The page shows whether attempts go on, and the cool-down after them.
func TestAnAttackLastsUntilItsLastAttempt(t *testing.T) {
	t.Parallel()
	going := attacks.Attack{ID: "a", Kind: attacks.Site, Began: noon.Add(-18 * time.Minute), Last: noon.Add(-12 * time.Minute), Going: true}
	stopped := going
	stopped.Going = false
	ended := stopped
	ended.Ended = noon.Add(-2 * time.Minute)
	small := ended
	small.Kind, small.Ended = attacks.Account, small.Last
	for name, one := range map[string]struct {
		attacks.Attack
		want, not []string
	}{
		"going":   {going, []string{"Running since", "18 minutes", "status attack"}, []string{"Stopped.", "cool"}},
		"stopped": {stopped, []string{"<b>Stopped.</b> From", "6 minutes", "CAPTCHA mode cools down", "status slow"}, []string{"Running", "18 minutes"}},
		"ended":   {ended, []string{"From", "6 minutes", "The cool-down ended at", "status quiet"}, []string{"Stopped", "16 minutes"}},
		"small":   {small, []string{"6 minutes"}, []string{"cool-down"}},
	} {
		page, err := RenderAttack(AttackView{Admin: around("/attacks"), Report: control.AttackReport{Attack: one.Attack}})
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(page), `id="facts"`)
		text, _, _ = strings.Cut(text, "<dl")
		for _, part := range one.want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: no %q in %s", name, part, text)
			}
		}
		for _, part := range one.not {
			if strings.Contains(text, part) {
				t.Errorf("%s: %q in %s", name, part, text)
			}
		}
	}
}
