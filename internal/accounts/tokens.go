package accounts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"authguard/internal/alerts"
	"authguard/internal/operation"
	"authguard/internal/times"
)

// A NewToken has the token's text, which is not stored.
type NewToken struct {
	Token
	Text string `json:"token"`
}

// CreateToken creates a token of the realm for the decision API or, with scopes, for the admin API, for all realms
// unless the request names one. It is valid when the operation returns, and within a second on other nodes. Only the
// answer has the token. Errors are those of Tokens.Add.
type CreateToken struct {
	Name   string            `json:"name"`
	Scopes []operation.Scope `json:"scopes"`
	For    string            `json:"for"` // with scopes only; default 90 days
	operation.Because
}

// May implements the check of a Request.
func (CreateToken) May(_ context.Context, _ operation.Powers, by operation.By) error {
	return by.MayChangeSignIn()
}

// FormFields returns the names of the form's fields: a checkbox for each scope.
func (CreateToken) FormFields() []string {
	names := []string{"name", "for", "reason"}
	for _, scope := range operation.Scopes() {
		names = append(names, "scope_"+string(scope))
	}
	return names
}

// FromForm reads the form's fields.
func (q *CreateToken) FromForm(f map[string]string) {
	q.Name, q.Reason = f["name"], f["reason"]
	for _, scope := range operation.Scopes() {
		if f["scope_"+string(scope)] == "true" {
			q.Scopes, q.For = append(q.Scopes, scope), f["for"]
		}
	}
}

// Do implements Request.
func (q CreateToken) Do(ctx context.Context, t *Tokens, by operation.By) (*operation.Change, error) {
	life, err := operation.HoldOf(q.For)
	if err != nil {
		return nil, err
	}
	text, made, err := t.Add(ctx, TokenRequest{Realm: by.Realm, Name: q.Name, By: by.Who,
		Maker: by.Maker, Scopes: slices.Compact(slices.Sorted(slices.Values(q.Scopes))), For: life,
		Confined: len(q.Scopes) > 0 && by.Named}, by.Now)
	if err != nil {
		return nil, err
	}
	detail, hint := "", "Back ends send it to the decision API: Authorization: Bearer TOKEN."
	if len(made.Scopes) > 0 {
		detail = fmt.Sprintf("scopes %s %s until %s", made.Scopes, map[bool]string{true: "in this realm",
			false: "in all realms"}[made.Confined], times.Text(made.ExpiresAt.UTC()))
		hint = "Programs send it to /api: Authorization: Bearer TOKEN."
	}
	told := strings.TrimSuffix(cmp.Or(detail, "for the decision API")+"; "+by.Why, "; ")
	return &operation.Change{
		Action: operation.Action{Subject: q.Name, Detail: detail}, Answer: NewToken{made, text},
		Alert:  fmt.Sprintf("token %s, by %s: %s", alerts.Name(q.Name), alerts.Name(by.Who), alerts.Name(told)),
		Secret: operation.Secret{What: "Token", Name: made.Name, Text: text, Hint: hint},
	}, nil
}

// RevokeToken revokes a token, here at once and on other nodes within a second. The error is ErrTokenUnknown if the
// realm has none of this name. Being urgent, it requires no recent sign-in.
type RevokeToken struct {
	Name string `json:"name" arg:"" help:"Name of the token"`
	operation.Because
}

// Do implements Request.
func (q RevokeToken) Do(ctx context.Context, t *Tokens, by operation.By) (*operation.Change, error) {
	if err := t.Revoke(ctx, by.Realm, q.Name); err != nil {
		return nil, err
	}
	return &operation.Change{Action: operation.Action{Subject: q.Name},
		Notice: operation.Notice{Note: "No undo: only a digest of the token was stored. Create another one."}}, nil
}
