package pages

import (
	"cmp"
	"net/http"
	"strconv"
)

// ErrorView is the page of an HTTP error.
type ErrorView struct {
	Page
	// Status is the HTTP status; 0 is taken for 500.
	Status int
	// Detail is one sentence of the handler's own in the page's language, instead
	// of the usual one.
	Detail string
	// Login is where somebody can sign in, or out and in again; empty: nobody needs to.
	Login string
}

// RenderError draws an error page.
func RenderError(v ErrorView) ([]byte, error) { return render("error", v) }

// key is of the texts for the status.
func (v ErrorView) key() string {
	key := "error." + v.Code()
	if !v.language().Has(key + ".title") {
		key = "error." + strconv.Itoa(http.StatusInternalServerError)
	}
	return key
}

// Code is the status, never 0.
func (v ErrorView) Code() string {
	return strconv.Itoa(cmp.Or(v.Status, http.StatusInternalServerError))
}

// Title is what happened.
func (v ErrorView) Title() string { return v.T(v.key() + ".title") }

// Text is what it means and what to do next.
func (v ErrorView) Text() string { return cmp.Or(v.Detail, v.T(v.key()+".text")) }

// Frame is what surrounds the page.
func (v ErrorView) Frame() frame { return frame{Page: v.Page, Title: v.Title()} }
