package pages

import (
	"cmp"
	"net/http"
)

// ErrorView is the page of an HTTP error.
type ErrorView struct {
	Page
	// Status is the HTTP status; 0 is taken for 500.
	Status int
	// Detail is one sentence of the handler's own, instead of the usual one.
	Detail string
}

// RenderError draws an error page.
func RenderError(v ErrorView) ([]byte, error) { return render("error", v) }

// words are what happened, and what it means and what to do next.
type words struct{ title, text string }

var errorWords = map[int]words{
	http.StatusBadRequest:            {"We could not read that", "The request was incomplete or damaged. Nothing was changed. Go back, reload the page and try again."},
	http.StatusForbidden:             {"That was not allowed", "The form was too old, or came from another site. Nothing was changed. Reload the page and try again."},
	http.StatusNotFound:              {"There is nothing here", "The address may be mistyped, or the page has moved. Check it, or start again from the front."},
	http.StatusMethodNotAllowed:      {"That does not work here", "This address answers another kind of request, for instance a form and not a link. Nothing was changed."},
	http.StatusRequestEntityTooLarge: {"That was too much", "The request was larger than anything that is needed here. Nothing was changed."},
	http.StatusUnsupportedMediaType:  {"We cannot read that kind of data", "Send a form or JSON. Nothing was changed."},
	http.StatusTooManyRequests:       {"Please wait before you try again", "There were too many tries. Nothing was changed."},
	http.StatusMisdirectedRequest:    {"This is not the way in", "Open the page by its own address."},
	http.StatusServiceUnavailable:    {"Too busy at the moment", "Nothing was lost. Wait a few seconds and try again."},
}

func (v ErrorView) words() words {
	return cmp.Or(errorWords[v.Status], words{"Something broke on our side", "You did nothing wrong, and it has been recorded. Try again in a minute; if it goes on, tell whoever runs this site."})
}

// Code is the status, never 0.
func (v ErrorView) Code() int { return cmp.Or(v.Status, http.StatusInternalServerError) }

// Title is what happened.
func (v ErrorView) Title() string { return v.words().title }

// Text is what it means and what to do next.
func (v ErrorView) Text() string { return cmp.Or(v.Detail, v.words().text) }

// Frame is what surrounds the page.
func (v ErrorView) Frame() frame { return frame{Page: v.Page, Title: v.Title()} }
