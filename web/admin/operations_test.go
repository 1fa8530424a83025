package admin_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"authguard/internal/accounts"
	"authguard/internal/audit"
	"authguard/internal/control"
	"authguard/internal/operation"
)

// greet is a new operation.
type greet struct {
	operation.OfAccount
	Words string `json:"words" help:"What to say"`
	operation.Because
}

func (q greet) Do(context.Context, *accounts.Realm, operation.By) (*operation.Change, error) {
	return &operation.Change{Action: operation.Action{Subject: q.Username, Detail: q.Words}}, nil
}

// A new operation is one entry of the table: it is in the API, on its page and in the OpenAPI document, and it is
// recorded. (Its command: TestANewOperationHasItsCommand.)
func TestANewOperationIsOneEntryOfTheTable(t *testing.T) {
	t.Parallel()
	c := newCounter(t, control.Operation{
		Name: "greet", Did: "greeted", Route: "POST /greet", Scope: operation.Accounts, Reason: "it disturbs",
		Request: func() any { return new(greet) }, Forms: []control.Form{{Path: "/greet", Notice: "Greeted:"}},
	})
	c.admit(t, "ann", accounts.Admin, false)
	for _, account := range []accounts.Addition{{Username: "bob"}, {Username: "ops", Groups: []string{"ops"}}} {
		account.Password = rightPassword
		_, err := c.accounts.Add(t.Context(), account)
		c.must(t, err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Scope string `json:"x-scope"`
		}
	}
	if c.mustAsk(t, "GET", "/api/openapi.json", "", &doc); doc.Paths["/api/greet"]["post"].Scope != "accounts" {
		t.Errorf("in the OpenAPI document: %+v", doc.Paths["/api/greet"])
	}
	browser := c.browser
	may, mayNot := c.token(t, "may", `"accounts"`), c.token(t, "not", `"unlock"`)
	for _, one := range []struct {
		token, question string
		status          int
	}{
		{may, `{"username":"bob","words":"hi","reason":"a call"}`, http.StatusOK},
		{may, `{"username":"bob","words":"hi"}`, http.StatusBadRequest},
		{may, `{"username":"bob","word":"hi","reason":"a call"}`, http.StatusBadRequest},
		{may, `{"username":"ann","words":"hi","reason":"a call"}`, http.StatusNotFound},
		{may, `{"username":"ops","words":"hi","reason":"a call"}`, http.StatusForbidden},
		{mayNot, `{"username":"bob","words":"hi","reason":"a call"}`, http.StatusForbidden},
	} {
		if status, body := c.bearer(t, one.token, "POST", "/api/greet", one.question); status != one.status {
			t.Errorf("%s: %d %s", one.question, status, body)
		}
	}
	recorded := func(who, detail string) {
		t.Helper()
		rows, err := c.config.Audit.Recent(t.Context(), audit.Filter{Kind: audit.KindAdmin, Limit: 1})
		if err != nil || len(rows) != 1 || rows[0].Decision != "greet" || rows[0].Account != "bob" || rows[0].Who != who ||
			rows[0].Detail != detail {
			t.Errorf("%+v %v", rows, err)
		}
	}
	recorded("token:may", "hi: a call")
	c.browser = browser
	if status, _, _ := c.post(t, "/greet", url.Values{"username": {"bob"}, "reason": {"x"}}); status != http.StatusForbidden {
		t.Errorf("without the session's token: %d", status)
	}
	page := c.submit(t, "/greet", url.Values{"username": {"bob"}, "words": {"hello"}, "reason": {"a form"}})
	if !strings.Contains(page, "Greeted:") {
		t.Error("no notice")
	}
	recorded("admin:ann", "hello: a form")
	if page := c.submit(t, "/greet", url.Values{"username": {"bob"}}); !strings.Contains(page, "Missing reason: it disturbs") {
		t.Error("no reason was asked for")
	}
}

// The document is valid OpenAPI, and has every operation with its fields.
func TestTheOperationsAreInTheOpenAPIDocument(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.api.More = []control.Operation{{Name: "greet", Route: "POST /greet", Request: func() any { return new(greet) }}}
	o.listen(t)
	var text json.RawMessage
	o.mustAsk(t, "GET", "/api/openapi.json", "", &text)
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	for _, operation := range append(control.Operations(), o.api.More...) {
		method, path, _ := strings.Cut(operation.Route, " ")
		if path != "" && doc.Paths.Value("/api"+strings.Replace(path, ":id", "{id}", 1)).GetOperation(method) == nil {
			t.Errorf("%s is missing", operation.Route)
		}
	}
	fields := doc.Paths.Value("/api/greet").Post.RequestBody.Value.Content["application/json"].Schema.Value.Properties
	if len(fields) != 3 || fields["words"].Value.Description != "What to say" {
		t.Errorf("%+v", fields)
	}
}
