package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// deviceCookie begins the names of device cookies; the account's tag follows,
// since several people may use one browser.
const deviceCookie = "authguard_device_"

// maxDevices is how many accounts' device cookies one browser keeps.
const maxDevices = 8

// deviceCookies are all device cookies of the request.
func deviceCookies(r *http.Request) (all []*http.Cookie) {
	for _, cookie := range r.Cookies() {
		if strings.HasPrefix(cookie.Name, deviceCookie) {
			all = append(all, cookie)
		}
	}
	return all
}

// devices are the values of all device cookies of the request.
func devices(r *http.Request) (all []string) {
	for _, cookie := range deviceCookies(r) {
		all = append(all, cookie.Value)
	}
	return all
}

// setDevice gives the browser its device cookie for an account and takes the
// oldest away beyond maxDevices.
func setDevice(c echo.Context, tag, value string, ttl time.Duration, secure bool) {
	if value == "" {
		return
	}
	others := 0
	for _, cookie := range deviceCookies(c.Request()) {
		if cookie.Name == deviceCookie+tag {
			continue
		}
		if others++; others >= maxDevices {
			c.SetCookie(&http.Cookie{Name: cookie.Name, Path: "/", MaxAge: -1})
		}
	}
	c.SetCookie(&http.Cookie{
		Name: deviceCookie + tag, Value: value, Path: "/", MaxAge: int(ttl.Seconds()),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	})
}
