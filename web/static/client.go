package static

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"authguard/captchamode/challenge/image"
	"authguard/web/texts"
)

// ServeClient serves the script that shows challenges in an app's own page: pow.js, which solves the proof of work, and
// client.js with the texts of all languages. An error was not sent to the client.
func ServeClient(w http.ResponseWriter, r *http.Request, languages *texts.Set) error {
	body, err := client(languages)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", "max-age=300")
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(body)))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	return nil
}

// clientTexts are the texts of client.js, beside those of pow.js.
var clientTexts = []string{
	"message.required.title", "message.failed.title", "message.slow.title", "message.code.title",
	"gate.required", "gate.failed", "gate.slow", "gate.code",
	"challenge.legend", "challenge.picture", "challenge.sound", "challenge.listen", "challenge.digits", "challenge.hard",
	"challenge.another", "code.summary", "code.label", "code.hint", "code.how", "gate.continue", "gate.again",
	"script.cancel", "wait.at", "wait.now", "solve.title",
}

func client(languages *texts.Set) ([]byte, error) {
	by := map[string]map[string]any{}
	for _, language := range languages.All() {
		all := map[string]any{}
		whole, err := language.Script("")
		work, err2 := language.Script("work.")
		if err = errors.Join(err, err2, json.Unmarshal([]byte(whole), &all)); err != nil {
			return nil, err
		}
		said := map[string]any{"lang": language.Tag(), "dir": language.Direction(), "work": json.RawMessage(work)}
		for _, key := range clientTexts {
			said[key] = all[key]
		}
		said["challenge.digits"] = language.Say("challenge.digits", "n", strconv.Itoa(image.DefaultDigits))
		by[language.Tag()] = said
	}
	filled, err := json.Marshal(by)
	if err != nil {
		return nil, err
	}
	work, err := Files.ReadFile("pow.js")
	if err != nil {
		return nil, err
	}
	script, err := Files.ReadFile("client.js")
	if err != nil {
		return nil, err
	}
	const gap = "const texts = {};"
	return append(work, bytes.Replace(script, []byte(gap), []byte("const texts = "+string(filled)+";"), 1)...), nil
}
