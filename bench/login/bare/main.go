// Command bare is the least that a login door can do: bind the form and say
// no. It is what the early refusal is measured against.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/labstack/echo/v4"
)

type form struct {
	Username string `form:"username"`
	Password string `form:"password"`
}

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
