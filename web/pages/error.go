package pages

import (
	"io"
	"net/http"
)

// ErrorView is the page of an HTTP error.
type ErrorView struct {
	Site Site
	// Status is the HTTP status; 0 is taken for 500.
	Status int
	// Detail is one sentence of the handler's own, instead of the usual one.
	Detail string
	// Back is the path offered as the way on; / when empty.
	Back string
	// BackText names that way; "Go to the start page" when empty.
	BackText string
}

// RenderError writes an error page.
func RenderError(w io.Writer, v ErrorView) error { return render(w, "error", v) }

// Code is the status, never 0.
func (v ErrorView) Code() int {
	if v.Status == 0 {
		return http.StatusInternalServerError
	}
	return v.Status
}

// Title is what happened.
func (v ErrorView) Title() string {
	switch v.Code() {
	case http.StatusBadRequest:
		return "We could not read that"
	case http.StatusForbidden:
		return "That was not allowed"
	case http.StatusNotFound:
		return "There is nothing here"
	case http.StatusMethodNotAllowed:
		return "That does not work here"
	case http.StatusRequestEntityTooLarge:
		return "That was too much"
	case http.StatusUnsupportedMediaType:
		return "We cannot read that kind of data"
	case http.StatusServiceUnavailable:
		return "Too busy at the moment"
	}
	return "Something broke on our side"
}

// Text is what it means and what to do next.
func (v ErrorView) Text() string {
	if v.Detail != "" {
		return v.Detail
	}
	switch v.Code() {
	case http.StatusBadRequest:
		return "The request was incomplete or damaged. Nothing was changed. Go back, reload the page and try again."
	case http.StatusForbidden:
		return "The form was too old, or came from another site. Nothing was changed. Reload the page and try again."
	case http.StatusNotFound:
		return "The address may be mistyped, or the page has moved. Check it, or start again from the front."
	case http.StatusMethodNotAllowed:
		return "This address answers another kind of request, for instance a form and not a link. Nothing was changed."
	case http.StatusRequestEntityTooLarge:
		return "The request was larger than anything that is needed here. Nothing was changed."
	case http.StatusUnsupportedMediaType:
		return "Send a form or JSON. Nothing was changed."
	case http.StatusServiceUnavailable:
		return "Nothing was lost. Wait a few seconds and try again."
	}
	return "It is not your doing, and it has been recorded. Try again in a minute; if it goes on, tell whoever runs this site."
}

// Way is the link that leads on.
func (v ErrorView) Way() string {
	if v.Back == "" {
		return "/"
	}
	return v.Back
}

// WayText names that link.
func (v ErrorView) WayText() string {
	if v.BackText == "" {
		return "Go to the start page"
	}
	return v.BackText
}

// Frame is what surrounds the page.
func (v ErrorView) Frame() frame { return frame{Site: v.Site, Title: v.Title()} }
