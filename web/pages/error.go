package pages

import (
	"cmp"
	"net/http"
	"strconv"
)

// ErrorView is the page of an HTTP error.
type ErrorView struct {
	Page
	// Status is the HTTP status; 0 means 500.
	Status int
	// Detail is the handler's sentence in the page's language, instead of the usual one.
	Detail string
	// Login is the sign-in page if signing in (again) helps; else empty.
	Login string
	// Account is the signed-in account that is not permitted, and Asked the requested host and path; else empty.
	Account, Asked string
}

// RenderError draws an error page.
func RenderError(v ErrorView) ([]byte, error) { return render("error", v) }

func (v ErrorView) key() string {
	key := "error." + v.Code()
	if !v.language().Has(key + ".title") {
		key = "error." + strconv.Itoa(http.StatusInternalServerError)
	}
	return key
}

// Code returns the status, never 0.
func (v ErrorView) Code() string {
	return strconv.Itoa(cmp.Or(v.Status, http.StatusInternalServerError))
}

// Title returns what happened.
func (v ErrorView) Title() string { return v.T(v.key() + ".title") }

// Text returns what it means and what to do next.
func (v ErrorView) Text() string { return cmp.Or(v.Detail, v.T(v.key()+".text")) }

// Frame returns the page's title.
func (v ErrorView) Frame() frame { return frame{Page: v.Page, Title: v.Title()} }
