package control

import (
	"context"
	"fmt"

	"authguard/internal/tokens"
)

// TokenOf returns the token with scopes that a request carries; see tokens.Table.Find.
func (c *Control) TokenOf(ctx context.Context, text string) (tokens.Token, bool, error) {
	return c.config.Tokens.Find(ctx, text, c.config.Now())
}

// tokensChanged applies a change.
func (c *Control) tokensChanged(ctx context.Context) error {
	if err := c.config.Changes.Poll(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("control: saved, and valid when the tokens can be read again: %w", err)
	}
	return nil
}

// Tokens returns the tokens of all realms that a command or a page created.
func (c *Control) Tokens(ctx context.Context) ([]tokens.Token, error) {
	return c.config.Tokens.All(ctx)
}
