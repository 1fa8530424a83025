package integrations

import (
	"context"
	_ "embed"
	"net/http"
	"strings"
	"time"

	"authguard/bench/wrk"
)

//go:embed api.lua
var script []byte

const token = "a-token-of-the-benchmark-of-32-characters"

const tokens = "api: {tokens: [" + token + "]}\n"

// events are the limits of an event, as in the README.
const events = `events: {password-reset: [5/1h block by account, 20/1d block by address]}
`

// api are the decision API's scenes. A login that succeeds writes the known client and an audit row to
// the database. The other attempts are counted in memory.
func api(folder string) []scene {
	asked := func(name, key, config string, ready func(context.Context, *wrk.Server) error) scene {
		env := []string{"BENCH_SCENE=" + key, "BENCH_TOKEN=" + token}
		request := wrk.Request{Script: folder + "/api.lua", Env: env}
		return scene{name: name, config: tokens + config, request: request, ready: ready}
	}
	return []scene{
		asked("begin: proceed", "begin", "", nil),
		asked("begin: delay", "stopped", delayed, fail),
		asked("an event: proceed", "event", events, nil),
		asked("an event: block", "exceeded", events, nil),
		asked("begin, settle failed", "guess", "", nil),
		asked("begin, settle succeeded", "login", "", nil),
	}
}

// fail begins one attempt and does not settle it.
func fail(ctx context.Context, ours *wrk.Server) error {
	body := strings.NewReader(`{"account":"no-such-user","address":"198.18.0.1"}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, ours.URL+"v1/attempts", body)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err == nil {
		err = answer.Body.Close()
	}
	time.Sleep(6 * time.Second) // until it counts as failed and no attempt waits for it
	return err
}
