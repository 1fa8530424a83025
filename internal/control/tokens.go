package control

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"authguard/internal/alerts"
	"authguard/internal/audit"
	"authguard/internal/tokens"
)

// A NewToken has the token's text, which is not stored.
type NewToken struct {
	tokens.Token
	Text string `json:"token"`
}

// AddToken creates a token of the realm for the decision API or, with scopes, for the admin API, for all realms unless
// Confined. It is valid when AddToken returns, and within a second on other nodes. why may be empty. Errors are those
// of tokens.Table.Add.
func (c *Control) AddToken(ctx context.Context, who string, a tokens.Asked, why string) (NewToken, error) {
	why, err := reason(why)
	if err != nil {
		return NewToken{}, err
	}
	a.Realm, a.By = c.config.Realm, who
	text, made, err := c.config.Tokens.Add(ctx, a, c.config.Now())
	if err != nil {
		return NewToken{}, err
	}
	detail := ""
	if len(made.Scopes) > 0 {
		detail = fmt.Sprintf("scopes %s %s until %s", made.Scopes, map[bool]string{true: "in this realm",
			false: "in all realms"}[made.Confined], made.ExpiresAt.UTC().Format(time.RFC3339))
	}
	told := strings.TrimSuffix(cmp.Or(detail, "for the decision API")+"; "+why, "; ")
	c.alarm("token-add", fmt.Sprintf("token %s, by %s", alerts.Name(a.Name), alerts.Name(who)), told)
	return NewToken{made, text}, c.tokenChanged(ctx, audit.Action{Who: who, What: "token-add", Subject: a.Name,
		Detail: detail, Why: why})
}

// TokenOf returns the token with scopes that a request carries; see tokens.Table.Find.
func (c *Control) TokenOf(ctx context.Context, text string) (tokens.Token, bool, error) {
	return c.config.Tokens.Find(ctx, text, c.config.Now())
}

// RevokeToken revokes a token, here at once and on other nodes within a second. why may be empty. The error is
// tokens.ErrUnknown if the realm has none of this name.
func (c *Control) RevokeToken(ctx context.Context, who, name, why string) error {
	why, err := reason(why)
	if err != nil {
		return err
	}
	if err := c.config.Tokens.Revoke(ctx, c.config.Realm, name); err != nil {
		return err
	}
	return c.tokenChanged(ctx, audit.Action{Who: who, What: "token-revoke", Subject: name, Why: why})
}

// tokenChanged records and applies a change.
func (c *Control) tokenChanged(ctx context.Context, a audit.Action) error {
	recorded := c.record(ctx, a)
	if err := c.config.Changes.Poll(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("control: saved, and valid when the tokens can be read again: %w", err)
	}
	return recorded
}

// Tokens returns the tokens of all realms that a command or a page created.
func (c *Control) Tokens(ctx context.Context) ([]tokens.Token, error) {
	return c.config.Tokens.All(ctx)
}
