// Package alerts tells people about the few moments that matter (rule R24):
// CAPTCHA mode went on or off, an attack began or ended, an account is under
// attack, somebody got in after many wrong passwords.
//
// [Alerter] watches the event bus for these edges, writes each into the log at
// once, and sends it to every channel (any shoutrrr URL). Each channel has a
// goroutine of its own that bundles what comes close together, keeps to a
// ceiling per hour, and tries again until it worked; what waits meanwhile is
// bounded and, beyond the bound, counted. So a dead mail server delays no
// login and loses no alert while the process lives; when the process ends, what
// was not delivered is only in the log. (Keeping it over a restart, an outbox
// in the database, is a later issue.)
//
// Titles are constant text. What a stranger typed stands only in bodies, as
// [Name] makes it.
package alerts
