package admin

import (
	"authguard/internal/control"
	"authguard/internal/operation"
)

// An inquiry is a request of the API that changes nothing, so it is not in the table of operations. OpenAPI and
// docs/reference/http-api.md follow from the entry.
type inquiry struct {
	route string // method and path below /api
	query string // parameters
	about string
	scope operation.Scope
	where control.Where
	h     question
}

func (a *API) inquiries() []inquiry {
	const read, one, all = operation.Read, control.OneRealm, control.AllRealms
	return []inquiry{
		{"GET /overview", "", "Data of the page Overview", read, one, a.overview},
		{"GET /status", "", "The same", read, one, a.overview},
		{"GET /series", "span", "Charts: each second of span quarter or hour, each minute of six-hours or day", read, one, a.series},
		{"GET /mode", "", "CAPTCHA mode and its override", read, one, a.mode},
		{"GET /policy", "", "Limits, their mode and their effect", read, one, a.policy},
		{"GET /explain", "account address event subject", "Why an attempt is limited", read, one, a.explain},
		{"GET /lookup", "account address", "All about an account, IP address or network", read, one, a.lookUpAll},
		{"GET /users", "find sort after limit", "Accounts; next page: next as after", read, one, a.users},
		{"GET /attacks", "page limit format", "Attacks, running ones first", read, one, a.attacks},
		{"GET /attacks/:id", "format", "One attack, with its logins from unknown clients", read, one, a.attack},
		{"GET /audit", "account address who kind what challenges since until zone before limit order format",
			"Rows of the audit log; next page: next as before", read, one, a.audit},
		{"GET /lists", "find verdict soon", "Entries of the IP lists", read, all, a.lists},
		{"GET /edge", "verdict limited everything", "IP ranges without overlaps, for firewalls", read, all, a.edge},
		{"GET /alerts", "before limit", "Alert channels and the last alerts", read, all, a.alerts},
		{"GET /tokens", "", "API tokens, without their values", operation.Admin, all, a.tokens},
		{"GET /administrators", "", "Administrators and their MFA", operation.Admin, control.MainRealm, a.administrators},
		{"GET /administrators/sessions", "username", "Sessions of an administrator", operation.Admin, control.MainRealm,
			a.sessions},
		{"POST /probe", "", "Expect a request with token, for doctor", operation.Admin, all, a.expectProbe},
		{"GET /probe", "token", "The request as it arrived", operation.Admin, all, a.probe},
		{"GET /openapi.json", "", "This table as OpenAPI 3.1", read, one, a.openAPI},
	}
}
