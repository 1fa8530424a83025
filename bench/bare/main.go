// Command bare is the reference for the login endpoint and the decision API: it reads the same form or
// JSON, makes no decision and writes a constant response.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/labstack/echo/v4"
)

type form struct {
	Username string `form:"username"`
	Password string `form:"password"`
}

type attempt struct {
	Account string `json:"account"`
	Address string `json:"address"`
}

type decision struct {
	Decision   string   `json:"decision"`
	Reasons    []string `json:"reasons"`
	Words      []string `json:"words"`
	RetryAfter int      `json:"retry_after,omitempty"`
	Suffices   *bool    `json:"password_suffices,omitempty"`
	Ticket     string   `json:"ticket,omitempty"`
}

type settlement struct {
	Ticket  string `json:"ticket"`
	Outcome string `json:"outcome"`
}

// ticket is as long as a ticket of authguard.
var ticket, yes = strings.Repeat("t", 214), true

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

func serve() error {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	e := echo.New()
	e.POST("/login", refuse)
	e.POST("/v1/attempts", begin)
	e.POST("/v1/attempts/settle", settle)
	e.POST("/v1/events/:name", event)
	fmt.Printf("login page http://%s/login\n", socket.Addr())
	return http.Serve(socket, e)
}

func refuse(c echo.Context) error {
	var f form
	if err := c.Bind(&f); err != nil {
		return err
	}
	return c.JSON(http.StatusTooManyRequests, map[string]string{"title": "Too many attempts"})
}

func begin(c echo.Context) error {
	var a attempt
	if err := c.Bind(&a); err != nil {
		return err
	}
	if a.Account == "no-such-user" {
		return c.JSON(http.StatusOK, stopped("delay", "pair-delay", "this account was tried with wrong passwords from this "+
			"address just now, so the next try has to wait (for another 1 hour)"))
	}
	return c.JSON(http.StatusOK, decision{
		Decision: "proceed", Reasons: []string{}, Words: []string{}, Suffices: &yes, Ticket: ticket,
	})
}

func stopped(action, reason, words string) decision {
	return decision{Decision: action, Reasons: []string{reason}, RetryAfter: 3600, Words: []string{words}}
}

func event(c echo.Context) error {
	var a attempt
	if err := c.Bind(&a); err != nil {
		return err
	}
	if a.Account == "no-such-user" {
		return c.JSON(http.StatusOK, stopped("block", "limit:account",
			"the account had 5 of password-reset within 1 hour, which is its limit (for another 1 hour)"))
	}
	return c.JSON(http.StatusOK, decision{Decision: "proceed", Reasons: []string{}, Words: []string{}})
}

func settle(c echo.Context) error {
	var s settlement
	if err := c.Bind(&s); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
