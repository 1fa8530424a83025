// Package pages draws every page that a person sees: sign-in, change of
// password, the administrator's overview with its plot, and plain errors.
//
// It is view code only. A handler fills a view struct and calls its Render
// function; the package knows nothing of HTTP, of the guard or of a clock: the
// moment that counts as now is a field of the view. A page is written whole or
// not at all.
//
// Pages work without JavaScript and under
//
//	default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:;
//	media-src 'self'; connect-src 'self'; form-action 'self';
//	frame-ancestors 'none'; base-uri 'none'
//
// so there is no inline script, no inline style and no style attribute, in the
// SVG neither. That is why the plot is drawn here: the charting library at
// hand writes a style attribute on every shape.
//
// Account names, addresses and reasons are typed by strangers. They are escaped
// by html/template, isolated from the text around them, cut where they are
// long, and their invisible characters are shown by number.
package pages
