package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/control"
	"authguard/internal/operation"
	"authguard/web"
	"authguard/web/pages"
)

// operate is an operation of the table in the API: a DELETE has its fields in the query, other methods in JSON.
func (a *API) operate(o control.Operation) question {
	return func(c echo.Context) (any, error) {
		q := o.Request()
		if file, ok := q.(operation.Uploaded); ok {
			return a.upload(c, o, file)
		} else if c.Request().Method == http.MethodDelete {
			fill(q, c.QueryParam)
		} else if o.Where == control.OwnAccount && len(namesOf(q)) == 0 {
			// a request without fields needs no body; admitted has checked its origin
		} else if err := readJSON(c, cmp.Or(o.MaxBody, maxQuestion), q); err != nil {
			return nil, err
		}
		for _, f := range fieldsOf(reflect.ValueOf(q).Elem()) {
			if f.inPath(o.Route) {
				f.value.SetString(c.Param(f.name))
			}
		}
		to := a.of(c)
		if o.Where == control.MainRealm || o.Where == control.OwnAccount {
			to = a.Control
		}
		change, err := to.Operate(c.Request().Context(), o, by(c), q)
		switch {
		case err != nil:
			return nil, err
		case o.Created:
			return nil, c.JSON(http.StatusCreated, change.Answer)
		case change.Answer == nil:
			return done, nil
		}
		return change.Answer, nil
	}
}

// readJSON decodes a JSON body. It requires the JSON content type, which another site's form cannot send (CSRF).
func readJSON(c echo.Context, limit int64, q any) error {
	if !web.SentJSON(c.Request()) {
		return asked(http.StatusUnsupportedMediaType, "send JSON (Content-Type: application/json)")
	}
	return web.ReadJSON(c, limit, q)
}

// A field of a request, with its name in JSON, queries and forms.
type field struct {
	reflect.StructField
	name  string
	value reflect.Value
}

// inPath reports whether the field is part of a route's path.
func (f field) inPath(route string) bool { return strings.Contains(route+"/", "/:"+f.name+"/") }

// fieldsOf returns the fields of a request, those of embedded structs too.
func fieldsOf(request reflect.Value) (all []field) {
	for i := range request.NumField() {
		of, value := request.Type().Field(i), request.Field(i)
		name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
		switch {
		case of.Anonymous:
			all = append(all, fieldsOf(value)...)
		case name != "" && name != "-":
			all = append(all, field{of, name, value})
		}
	}
	return all
}

func namesOf(q any) (names []string) {
	for _, f := range fieldsOf(reflect.ValueOf(q).Elem()) {
		names = append(names, f.name)
	}
	return names
}

// fill reads a request from texts: a set box is true, and a list is separated by commas or spaces.
func fill(q any, get func(name string) string) {
	for _, f := range fieldsOf(reflect.ValueOf(q).Elem()) {
		switch text := get(f.name); f.value.Kind() {
		case reflect.Bool:
			f.value.SetBool(text != "" && text != "false")
		case reflect.String:
			f.value.SetString(text)
		case reflect.Slice:
			for _, one := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
				f.value.Set(reflect.Append(f.value, reflect.ValueOf(one).Convert(f.Type.Elem())))
			}
		}
	}
}

// A formReader reads a form whose fields differ from the request's.
type formReader interface {
	FormFields() []string
	FromForm(sent map[string]string)
}

// form is an operation of the table on a page. It shows the outcome once, on the page with the form.
func (s *Site) form(o control.Operation, form control.Form) echo.HandlerFunc {
	return s.page(func(c echo.Context, session *web.Session) error {
		q := o.Request()
		names := []string{"in"}
		if own, ok := q.(formReader); ok {
			names = append(names, own.FormFields()...)
		} else {
			names = append(names, namesOf(q)...)
		}
		for _, other := range form.Alias {
			names = append(names, other)
		}
		sent, err := readForm(c, session, names...)
		if err != nil {
			return err
		}
		for name, other := range form.Alias {
			sent[name] = cmp.Or(sent[name], sent[other])
		}
		for name, value := range form.Default {
			sent[name] = cmp.Or(sent[name], value)
		}
		for name, value := range form.Set {
			sent[name] = value
		}
		if own, ok := q.(formReader); ok {
			own.FromForm(sent)
		} else {
			fill(q, func(name string) string { return sent[name] })
		}
		change, err := s.changed(c, session, o, form, q, sent["in"])
		return s.shown(c, session, sent, form, change, err)
	})
}

// changed carries out an operation for a signed-in administrator, in a realm that the form names.
func (s *Site) changed(c echo.Context, session *web.Session, o control.Operation, form control.Form,
	q any, in string) (*operation.Change, error) {
	to := s.of(c)
	switch o.Where {
	case control.MainRealm:
		to = s.Control
	case control.NamedRealm:
		if to = s.realm(cmp.Or(in, guard.DefaultRealm)); to == nil {
			return nil, web.Invalid("unknown realm %.60q", in)
		}
	}
	by := s.by(c, session)
	by.Named, by.Users = in != "", form.Users
	return to.Operate(c.Request().Context(), o, by, q)
}

func (s *Site) by(c echo.Context, session *web.Session) operation.By {
	return operation.By{Who: who(session), Fresh: s.fresh(session), Maker: session.Account.Account,
		Address: s.Login.Edge.Client(c.Request()).Address}
}

// shown shows the outcome of an operation after a redirect, so that reloading the page repeats nothing. A secret is
// shown even if the operation could not be recorded.
func (s *Site) shown(c echo.Context, session *web.Session, sent web.Form, form control.Form, change *operation.Change,
	err error) error {
	var notice pages.Notice
	if err != nil {
		if notice, err = s.failed(c, err); err != nil {
			return err
		}
	} else {
		notice = pages.Notice{Text: change.Notice.Text, Subject: change.Notice.Subject, Bad: change.Notice.Bad,
			Note: change.Notice.Note, Undo: s.undo(c, form, change.Undo)}
		if notice.Text == "" {
			notice.Text, notice.Subject = form.Notice, change.Subject
		}
		if strings.HasPrefix(form.Path, "/policy") {
			notice.Subject = pages.LimitSetTitle(notice.Subject)
		}
	}
	if change != nil && change.Secret.Text != "" {
		secret := pages.Secret(change.Secret)
		if notice.Secret = &secret; !notice.Bad {
			notice.Text, notice.Subject = "", ""
		}
	}
	return s.outcome(c, session, sent, notice, nil)
}

// undo returns the form that sends an inverse request: the first that can, and that rejects the same accounts. Another
// tab may show the notice, so the path names the realm.
func (s *Site) undo(c echo.Context, of control.Form, request any) *pages.Undo {
	if request == nil {
		return nil
	}
	fields := map[string]string{}
	for _, f := range fieldsOf(reflect.ValueOf(request).Elem()) {
		text := fmt.Sprint(f.value)
		if all, ok := f.value.Interface().([]string); ok {
			text = strings.Join(all, " ")
		}
		switch {
		case f.value.Kind() == reflect.Bool && text == "false":
		case text != "":
			fields[f.name] = text
		}
	}
	for _, o := range s.operations() {
		if reflect.TypeOf(o.Request()) != reflect.TypeOf(request) {
			continue
		}
		for _, form := range o.Forms {
			fits := form.Users == of.Users
			for name, value := range form.Set {
				fits = fits && fields[name] == value
			}
			if fits {
				return &pages.Undo{Path: pages.At(form.Path, s.of(c).Realm()), Fields: fields}
			}
		}
	}
	return nil
}
