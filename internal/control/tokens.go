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

// A NewToken is a token as it is told once.
type NewToken struct {
	tokens.Token
	Text string `json:"token"`
}

// AddToken makes a token of the realm, and why may be empty: of the decision API or, with scopes, of the
// administration's, for all realms unless it is Confined to this one. It is in force when AddToken returns, and within a second on the other
// nodes. Errors are those of tokens.Table.Add.
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
		detail = fmt.Sprintf("scopes %s %s until %s", made.Scopes, map[bool]string{true: "in this realm", false: "in all realms"}[made.Confined], made.ExpiresAt.UTC().Format(time.RFC3339))
	}
	told := strings.TrimSuffix(cmp.Or(detail, "for the decision API")+"; "+why, "; ")
	c.alarm("token-add", fmt.Sprintf("token %s, by %s", alerts.Name(a.Name), alerts.Name(who)), told)
	return NewToken{made, text}, c.tokenChanged(ctx, audit.Action{Who: who, What: "token-add", Subject: a.Name, Detail: detail, Why: why})
}

// TokenOf is the token with scopes that a request brings; see tokens.Table.Find.
func (c *Control) TokenOf(ctx context.Context, text string) (tokens.Token, bool, error) {
	return c.config.Tokens.Find(ctx, text, c.config.Now())
}

// RevokeToken ends one, and why may be empty: here when RevokeToken returns, on other nodes within a second.
// The error is tokens.ErrUnknown if the realm has none of this name.
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

// tokenChanged puts a change on record and in force.
func (c *Control) tokenChanged(ctx context.Context, a audit.Action) error {
	recorded := c.record(ctx, a)
	if err := c.config.Changes.Poll(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("control: saved, and valid when the tokens can be read again: %w", err)
	}
	return recorded
}

// Tokens are those that were made by command, of all realms.
func (c *Control) Tokens(ctx context.Context) ([]tokens.Token, error) {
	return c.config.Tokens.All(ctx)
}
