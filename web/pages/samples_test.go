package pages

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/attacks"
	"authguard/internal/audit"
	"authguard/internal/control"
	"authguard/internal/lists"
	"authguard/internal/metrics"
	"authguard/internal/mfa"
	"authguard/internal/operation"
	"authguard/internal/policy"
	"authguard/internal/sessions"
	"authguard/trusted"
)

var noon = time.Date(2026, 3, 14, 12, 0, 30, 0, time.UTC)

// hostile is what a stranger may type as a name: a formula, lines, markup, an attribute's end, a
// URL, a turned-round suffix, a zero-width space and a broken byte.
const hostile = "=cmd()\r\n\"'><img src=x onerror=alert(1)><script>alert(1)</script>javascript:x&account=root#\u202egpj\u200b\xff"

// samples are the pages in every state that changes their markup.
func samples() map[string]func() ([]byte, error) {
	now := func(v NowView) func() ([]byte, error) {
		return func() ([]byte, error) { return RenderNow(v) }
	}
	all := public(Page{})
	for name, v := range overviews() {
		all["now "+name] = now(v)
	}
	maps.Copy(all, map[string]func() ([]byte, error){
		"password": func() ([]byte, error) {
			return RenderPassword(PasswordView{Admin: true, Action: "/password", CSRF: "token", OneTime: true})
		},
		"password refused": func() ([]byte, error) { return RenderPassword(refusedPassword()) },
		"now":              now(NowView{Admin: around("/"), Overview: control.Overview{Now: noon}}),
		"now attacked":     now(attacked()),
		"alerts":           func() ([]byte, error) { return RenderAlerts(AlertsView{Admin: around("/alerts")}) },
		"alerts dead":      func() ([]byte, error) { return RenderAlerts(deadChannels()) },
		"audit":            func() ([]byte, error) { return RenderAudit(AuditView{Admin: around("/audit")}) },
		"audit full":       func() ([]byte, error) { return RenderAudit(audited()) },
		"accounts":         func() ([]byte, error) { return RenderAccounts(AccountsView{Admin: around("/accounts")}) },
		"accounts all":     func() ([]byte, error) { return RenderAccounts(listedAccounts()) },
		"look up":          func() ([]byte, error) { return RenderLookUp(LookUpView{Admin: around("/lookup")}) },
		"look up network":  func() ([]byte, error) { return RenderLookUp(aroundMany()) },
		"look up locked":   func() ([]byte, error) { return RenderLookUp(locked()) },
		"act":              func() ([]byte, error) { return RenderAct(ActView{Admin: around("/act"), What: ActBlock}) },
		"act block": func() ([]byte, error) {
			range24, at := netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("203.0.113.0/25")
			return RenderAct(ActView{Admin: around("/act"), What: ActBlock, CIDR: range24.String(), Affected: control.Affected{Range: range24, Partial: true,
				Accounts: []string{"ann", hostile, "c", "d", "e", "f"}, Failed: 7, Tried: 2, Entries: []lists.Entry{{Prefix: range24, Verdict: lists.Block, ExpiresAt: noon}, {Prefix: at, Verdict: lists.Allow, Note: hostile}}}})
		},
		"act unlock": func() ([]byte, error) {
			return RenderAct(ActView{Admin: around("/act"), What: ActUnlock, Account: hostile, Counters: []string{"Account: 5 of 5 failures."}})
		},
		"attacks": func() ([]byte, error) {
			return RenderAttacks(AttacksView{Admin: around("/attacks"), Attacks: control.Attacks{Page: 1, Limit: 20}})
		},
		"attacks many": func() ([]byte, error) { return RenderAttacks(attackedOften()) },
		"attack":       func() ([]byte, error) { return RenderAttack(AttackView{Admin: around("/attacks"), Page: 1}) },
		"attack lost":  func() ([]byte, error) { return RenderAttack(lostIn(30, "")) },
		"attack confirmed": func() ([]byte, error) {
			v := lostIn(30, "")
			v.Do, v.Selected = "secure", []string{hostile}
			return RenderAttack(v)
		},
		"attack elsewhere": func() ([]byte, error) { return RenderAttack(lostIn(1, "the app keeps the accounts")) },
		"policy":           func() ([]byte, error) { return RenderPolicy(PolicyView{Admin: around("/policy")}) },
		"policy watched":   func() ([]byte, error) { return RenderPolicy(watchedPolicy()) },
		"try":              func() ([]byte, error) { return RenderTry(tried(false)) },
		"try refused":      func() ([]byte, error) { return RenderTry(tried(true)) },
		"lists":            func() ([]byte, error) { return RenderLists(ListsView{Admin: around("/lists")}) },
		"lists full":       func() ([]byte, error) { return RenderLists(listed()) },
		"lists removal": func() ([]byte, error) {
			v := listed()
			v.Plan, v.Problem, v.Selected = nil, "", []string{"203.0.113.30/32", "203.0.113.31/32"}
			return RenderLists(v)
		},
		"login passkeys": func() ([]byte, error) {
			return new(LoginPages).Render(LoginView{Admin: true, Passkeys: true, PasskeysAt: "http://localhost:8081", Next: "/a?b=" + hostile})
		},
		"second": func() ([]byte, error) {
			return RenderSecond(SecondView{LoginView: LoginView{Username: hostile, Next: "/a?b=" + hostile, Challenge: digits(), Message: Message{Kind: SecondWrong}}, CSRF: "token", Code: hostile, App: true, Recovery: true, Passkey: true})
		},
		"second elsewhere": func() ([]byte, error) {
			return RenderSecond(SecondView{LoginView: LoginView{PasskeysAt: "http://localhost:8081"}, CSRF: "token", PasskeyHost: "localhost"})
		},
		"administrators": func() ([]byte, error) {
			return RenderAdministrators(AdministratorsView{Admin: around("/administrators")})
		},
		"administrators all": func() ([]byte, error) { return RenderAdministrators(steering()) },
		"security": func() ([]byte, error) {
			return RenderSecurity(SecurityView{Admin: around("/security"), PasskeysAt: "http://localhost:8081"})
		},
		"security all": func() ([]byte, error) { return RenderSecurity(secured()) },
	})
	return all
}

// public are those of the pages that are not the administration's.
func public(p Page) map[string]func() ([]byte, error) {
	login := func(v LoginView) func() ([]byte, error) {
		v.Page = p
		return func() ([]byte, error) { return new(LoginPages).Render(v) }
	}
	code := func(v CodeView) func() ([]byte, error) {
		v.Page = p
		return func() ([]byte, error) { return RenderCode(v) }
	}
	gate := func(v GateView) func() ([]byte, error) {
		v.Look, v.Language = p.Look, p.Language
		return func() ([]byte, error) { return RenderGate(v) }
	}
	solve := func(v SolveView) func() ([]byte, error) {
		v.Page = p
		return func() ([]byte, error) { return RenderSolve(v) }
	}
	forgot := func(v ForgotView) func() ([]byte, error) {
		v.Page = p
		return func() ([]byte, error) { return RenderForgot(v) }
	}
	account := func(v AccountView) func() ([]byte, error) {
		v.Page, v.CSRF = p, "token"
		return func() ([]byte, error) { return RenderAccount(v) }
	}
	notMe := func(v NotMeView) func() ([]byte, error) {
		with := NotMe(p, hostile, "203.0.113.9", hostile, noon)
		with.Action = "/login/not-me/TOKEN"
		if v.CSRF != "" {
			with.Action = "/account/not-me"
		}
		with.Ours, with.Form, with.Done, with.ID, with.CSRF, with.Problems = v.Ours, v.Form, v.Done, v.ID, v.CSRF, v.Problems
		return func() ([]byte, error) { return RenderNotMe(with) }
	}
	return map[string]func() ([]byte, error){
		"login":             login(LoginView{}),
		"login wrong":       login(LoginView{Username: hostile, Next: "/a?b=" + hostile, Message: Message{Kind: WrongCredentials}}),
		"login wrong sent":  login(LoginView{Message: Message{Kind: WrongCredentials, CodeSent: true}}),
		"login image":       login(LoginView{Challenge: digits(), Message: Message{Kind: ChallengeRequired, Why: WhySite}}),
		longWork:            login(LoginView{Challenge: toil(), Username: hostile, Message: Message{Kind: ChallengeRequired, Why: WhyAccount}}),
		"login work":        login(LoginView{Challenge: work(), Message: Message{Kind: ChallengeAhead}}),
		"login both":        login(LoginView{Challenge: both(), Message: Message{Kind: ChallengeFailed}}),
		"login widget":      login(LoginView{Challenge: widget(), Message: Message{Kind: ChallengeRequired}}),
		"login wait":        login(LoginView{Username: "alice", Message: Message{Kind: SlowDown, RetryAfter: time.Hour, RetryAt: noon.Add(time.Hour)}}),
		"login code":        login(LoginView{Message: Message{Kind: SlowDown, RetryAfter: time.Hour, CodeFailed: true}}),
		"login busy":        login(LoginView{Message: Message{Kind: Overloaded, RetryAfter: 3 * time.Second}}),
		"second wrong":      login(LoginView{Message: Message{Kind: SecondWrong}}),
		"passkey not":       login(LoginView{Message: Message{Kind: PasskeyWrong}}),
		"signed in":         login(LoginView{SignedInAs: hostile, Next: "/account"}),
		"signed in account": login(LoginView{SignedInAs: hostile, Account: true, Password: true}),
		"login blocked":     login(LoginView{Message: Message{Kind: Blocked, Client: "203.0.113.9", RetryAt: noon}}),
		"gate blocked":      gate(GateView{Action: "/login/", Sealed: "c2VhbGVk", AskCode: true, Message: Message{Kind: Blocked, Client: "203.0.113.9", RetryAt: noon}}),
		"code":              code(CodeView{Back: "/login"}),
		"code by mail":      code(CodeView{Mail: true, Problem: p.T("problem.no-name")}),
		"code asked":        code(CodeView{Mail: true, Asked: true, Username: hostile, Back: "/login"}),
		"forgot":            forgot(ForgotView{}),
		"forgot challenge":  forgot(ForgotView{Username: hostile, GateView: GateView{Challenge: both(), Message: Message{Kind: ChallengeRequired, Why: WhySite}}}),
		"forgot wait":       forgot(ForgotView{Username: hostile, GateView: GateView{Message: Message{Kind: SlowDown, RetryAfter: time.Minute, RetryAt: noon.Add(time.Minute)}}}),
		"forgot blocked":    forgot(ForgotView{GateView: GateView{Message: Message{Kind: Blocked, Client: "203.0.113.9", RetryAt: noon}}}),
		"forgot asked":      forgot(ForgotView{Username: hostile, Asked: true}),
		"login reset":       login(LoginView{Resets: true, Message: Message{Kind: PasswordReset}}),
		"account":           account(AccountView{Username: hostile}),
		"account all":       account(ownAccount()),
		"login passkey":     login(LoginView{Passkeys: true}),
		"account admin":     account(AccountView{Username: hostile, Administrator: true}),
		"not me":            notMe(NotMeView{Ours: true}),
		"not me form":       notMe(NotMeView{Ours: true, Form: true, ID: "1", CSRF: "token", Problems: []PasswordProblem{CurrentWrong}}),
		"not me there":      notMe(NotMeView{ID: "1", CSRF: "token"}),
		"not me done":       notMe(NotMeView{Ours: true, Done: true}),
		"not me over":       notMe(NotMeView{Done: true}),
		"own password": func() ([]byte, error) {
			return RenderPassword(PasswordView{Page: p, Action: "/account/password", CSRF: "token", Username: hostile, Problems: []PasswordProblem{CurrentWrong, NewTooShort, NewLeaked, NewTooLong, NewHasNUL, NewSame, RepeatDiffers}})
		},
		"reset": func() ([]byte, error) {
			return RenderPassword(PasswordView{Page: p, Action: "/login/reset/TOKEN", Username: hostile, Reset: true})
		},
		"own password leaked": func() ([]byte, error) {
			return RenderPassword(PasswordView{Page: p, CSRF: "token", Username: hostile, Action: "/account/password", Next: "/a", Leaked: true})
		},
		"own password held": func() ([]byte, error) {
			return RenderPassword(PasswordView{Page: p, CSRF: "token", Username: hostile, Action: "/account/password", Next: "/a", OneTime: true, JustTyped: true})
		},
		"gate":        gate(GateView{Action: "/accounts/login/?b=\"><script>", Sealed: "c2VhbGVk", AskCode: true, Challenge: digits(), Message: Message{Kind: ChallengeRequired, Why: WhySite}}),
		"gate form":   gate(GateView{Page: Page{Base: "/.authguard"}, Action: "/wp-login.php", Sealed: "c2VhbGVk", Account: hostile, Challenge: work(), Message: Message{Kind: ChallengeRequired}}),
		"gate widget": gate(GateView{Action: "/login/", Sealed: "c2VhbGVk", Challenge: widget(), Message: Message{Kind: ChallengeFailed, CodeFailed: true}, AskCode: true}),
		"gate wait":   gate(GateView{Action: "/login/", Sealed: "c2VhbGVk", Account: "alice", AskCode: true, Message: Message{Kind: SlowDown, RetryAfter: time.Hour, RetryAt: noon.Add(time.Hour)}}),
		"solve":       solve(SolveView{GateView: GateView{Action: "/.authguard/solve"}, Routes: []string{"route-a", "route-b"}, Route: "route-b"}),
		"solve work":  solve(SolveView{GateView: GateView{Action: "/.authguard/solve", AskCode: true, Account: hostile, Challenge: work(), Message: Message{Kind: ChallengeFailed}}, Routes: []string{"login"}, Route: "login"}),
		"solve wait":  solve(SolveView{GateView: GateView{Action: "/.authguard/solve", Account: "alice", Message: Message{Kind: SlowDown, RetryAfter: time.Minute, RetryAt: noon.Add(time.Minute)}}, Routes: []string{"login"}, Route: "login"}),
		"solve done":  solve(SolveView{GateView: GateView{Account: "alice"}, Solved: true}),
		"down":        func() ([]byte, error) { return RenderDown(DownView{Page: p, Status: 502, Retry: "/a?b=\"><script>"}) },
		"late":        func() ([]byte, error) { return RenderDown(DownView{Page: p, Status: 504}) },
		"error":       func() ([]byte, error) { return RenderError(ErrorView{Page: p, Status: 404}) },
		"stranger":    func() ([]byte, error) { return RenderError(ErrorView{Page: p, Status: 401, Login: "/login?next=%2Fx"}) },
		"no group": func() ([]byte, error) {
			return RenderError(ErrorView{Page: p, Status: 403, Login: "/login", Account: hostile, Asked: "app.example.org/admin/" + hostile})
		},
	}
}

func digits() Challenge {
	return Challenge{ID: "c1", Kind: ChallengeImage, Image: "/captcha/c1.png", Audio: "/captcha/c1.wav"}
}

func work() Challenge {
	c := digits()
	c.Kind, c.PoWJSON = ChallengePoW, `{"salt":"a'b\"<c"}`
	return c
}

// longWork is a page whose script says how long the work takes.
const longWork = "login long work"

// toil is work for minutes on any machine: two million keys, ten times the most that is asked for.
func toil() Challenge {
	c := both()
	c.PoWJSON = `{"algorithm":"PBKDF2-SHA-256","iterations":5000,"parts":8,"below":17180,"salt":"salt"}`
	return c
}

func both() Challenge {
	c := work()
	c.Kind = ChallengeBoth
	return c
}

func widget() Challenge {
	c := digits()
	c.Kind, c.Service, c.Script, c.Class, c.SiteKey = ChallengeRemote, "turnstile", "https://challenges.cloudflare.com/turnstile/v0/api.js", "cf-turnstile", "0x4AAAAAAA"
	c.Action, c.Bound = "login", "00ff"
	return c
}

// listedAccounts are accounts in every state.
func listedAccounts() AccountsView {
	v := AccountsView{Admin: around("/accounts")}
	v.Notice.Secret = &Secret{"Temporary password of", hostile, "abcdefgh", "Hand it over."}
	v.Query.Find, v.Query.After, v.Accounts = hostile, "50", control.Accounts{Kept: "authguard", Next: "100", Partial: true, Counts: accounts.Counts{All: 152, MustChange: 12, NeedsCode: 1, Disabled: 3}}
	one := func(a accounts.Account) {
		v.Accounts.All = append(v.Accounts.All, control.ListedAccount{
			Account: a, Outcome: audit.Outcome{LastFailure: noon, LastLogin: noon, Failures: 12345}, Places: 3, Sessions: 2, Code: true, Second: a.Role == accounts.Admin,
		})
	}
	one(accounts.Account{ID: "1", Username: hostile, Email: hostile, Groups: []string{hostile, "staff"}, Disabled: true, MustChange: true, NeedsCode: true})
	one(accounts.Account{ID: "2", Username: "bob"})
	one(accounts.Account{ID: "3", Username: "admin", Role: accounts.Admin})
	return v
}

// ownAccount is an account with all that there is to see of one.
func ownAccount() AccountView {
	here := netip.MustParseAddr("192.0.2.1")
	v := AccountView{Username: hostile, This: "1", Here: here, Password: true}
	v.Own.Sessions = []sessions.Session{
		{ID: "1", Address: "192.0.2.1", Agent: hostile, Started: noon, Seen: noon.Add(time.Hour)}, {ID: "2", Address: "198.51.100.7", Started: noon, Seen: noon},
	}
	v.Own.Logins = []audit.Row{{ID: 7, Address: "192.0.2.1", At: noon}, {ID: 8, Address: "unknown", At: noon}}
	v.Own.Places = []control.KnownClient{{Address: here, First: noon, Last: noon}, {Address: netip.MustParseAddr("198.51.100.7"), First: noon, Last: noon}}
	v.PasskeysHere, v.Kept = true, []mfa.Passkey{{ID: "x", Name: hostile, Created: noon, Used: noon}, {ID: "y", Name: hostile, Created: noon, Cloned: noon}}
	v.Own.Unnamed, v.Own.Devices = 2, []control.Use{{Address: "198.51.100.7", Last: noon}}
	return v
}

func refusedPassword() PasswordView {
	return PasswordView{Admin: true, Action: "/password", CSRF: "token", Username: "admin", Problems: []PasswordProblem{CurrentWrong, NewTooShort, RepeatDiffers}}
}

// aroundMany is the look-up of a network that is full, blocked and on record.
func aroundMany() LookUpView {
	n := &control.NetworkLookUp{Said: "Too many wrong passwords came from there.", Next: "Unlock it.", Range: netip.MustParsePrefix("203.0.113.0/24"), Counted: netip.MustParsePrefix("203.0.113.0/24"),
		Lines: []string{"network: 60 of 60 failures in any minute"}, Exactly: true, More: 3,
		Entries: []lists.Entry{{Prefix: netip.MustParsePrefix("203.0.112.0/20"), Verdict: lists.Allow}, {Prefix: netip.MustParsePrefix("203.0.113.0/24"), Verdict: lists.Block, Note: hostile, ExpiresAt: noon.Add(time.Hour)}}}
	for range 30 {
		n.Recent = append(n.Recent, control.Event{Row: audit.Row{At: noon, Kind: audit.KindAttempt, Account: hostile, Address: "203.0.113.9", Count: 12}, What: "wrong password", Why: []string{"the network had as many failures as its limit allows"}})
	}
	n.Recent = append(n.Recent, control.Event{Row: audit.Row{At: noon, Kind: audit.KindAdmin, Address: "203.0.113.9", Who: hostile, Detail: hostile, Count: 1}, What: "unlocked"})
	return LookUpView{Admin: around("/lookup"), LookUp: LookUp{Address: "203.0.113.0/24", Network: n}}
}

// attacked is the overview with everything in it, and strangers' words
// wherever they can appear.
func attacked() NowView {
	subjects := []control.Subject{
		{Top: metrics.Top{Name: hostile, Failures: 1234, LastSeen: noon}, Next: "challenge"}, {Top: metrics.Top{Name: "198.51.100.7"}, Next: "proceed"},
	}
	forced := captchamode.Override{State: captchamode.ForcedOn, Who: hostile, Why: hostile, Until: noon.Add(time.Hour)}
	return answered(NowView{
		Admin: around("/"), Span: metrics.LastDay, Series: metrics.Series{Each: time.Minute, FailureRate: hour(40), Points: []metrics.Point{
			{Start: noon.Add(-time.Minute), Counts: metrics.Counts{Attempts: 9, Failures: 7, Logins: 2, Shown: 2, Solved: 1, Refused: 3, Known: 1}},
		}, Week: office()},
		Overview: control.Overview{
			Now: noon, Nodes: true,
			Warnings: []alerts.Warning{{Title: "A proxy was forgotten", Text: "Everybody looks alike.", Setting: "trusted_proxies: [10.0.0.1]"}},
			State: captchamode.State{
				Level: captchamode.Attack, On: true, Override: forced, FailureRate: captchamode.Counts{80}, SlowAt: 20, LeaveAt: 30, Threshold: 60,
			},
			Attacks: []attacks.Attack{{ID: "20260314-1150-abcd", Kind: attacks.Site, Began: noon.Add(-10 * time.Minute), Attempts: 900, Shapes: []string{attacks.Botnet},
				Sources: attacks.Sources{Addresses: 800, TopAddresses: []attacks.Named{{Name: "198.51.100.7", Attempts: 300}, {Name: "198.51.100.8", Attempts: 1}}}}},
			Addresses: subjects, Accounts: subjects,
			Networks: []control.Subject{{Top: metrics.Top{Name: "198.51.100.0/24", Stopped: 9, LastSeen: noon}, Range: netip.MustParsePrefix("198.51.100.0/24")},
				{Top: metrics.Top{Name: "203.0.113.0/24"}, Range: netip.MustParsePrefix("203.0.113.0/24"), Blocked: true}},
			Unsecured: []attacks.Attack{{ID: "20260313-1150-abcd", Kind: attacks.Site, Compromised: attacks.Compromised{Lost: 7, Open: 1}}},
			Reasons:   []control.Subject{{Top: metrics.Top{Name: "captcha-mode", Words: "CAPTCHA mode is on", Stopped: 9}}},
			Switches:  []captchamode.Switch{{At: noon, WasOn: true}, {At: noon, On: true, Cause: captchamode.ByPerson, Override: forced}},
		},
	})
}

// around is what surrounds a page, for somebody and a realm with strangers' names.
func around(path string) Admin {
	return Admin{CSRF: "token", Path: path, Back: path, Now: noon, User: hostile, Open: 3, Realm: "shop", Realms: []string{"default", "shop"},
		Notice: Notice{Text: "Blocked:", Subject: hostile, Note: "No undo: of this.", Undo: &Undo{"/lists/remove", map[string]string{"cidr": hostile}}}}
}

// listed is the page of the lists with everything in it.
func listed() ListsView {
	v := ListsView{Admin: around("/lists"), Query: lists.Query{Find: "203.0.113.9"}, Page: 2, Problem: "Nothing was changed.",
		Add: ListsForm{Text: "203.0.113.9 </textarea><script>", Verdict: "allow", For: "24h", Note: hostile}}
	v.Address, v.Total, v.Allowed, v.Soon, v.Found = netip.MustParseAddr("203.0.113.9"), 40, 20, 3, []string{"tor"}
	for i := range 40 {
		e := lists.Entry{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}), 32), Verdict: lists.Block, Note: hostile, CreatedBy: "admin:" + hostile, CreatedAt: noon.Add(-time.Hour)}
		if i%2 == 0 {
			e.Verdict, e.ExpiresAt = lists.Allow, noon.Add(time.Hour)
		}
		v.Entries = append(v.Entries, e)
	}
	bad := []lists.LineProblem{{Line: 3, Text: "not an address or range: " + hostile}}
	v.Plan = &lists.Plan{Verdict: lists.Block, Expires: noon.Add(time.Hour), New: 4, Replaced: 1, Doubtful: 1, Own: true, Twice: 1, Bad: 7, Problems: bad, Warned: 1, Warnings: bad}
	v.Named = []lists.NamedList{
		{State: lists.State{Name: "tor", File: "/var/lib/" + hostile, Format: lists.Plain, Kept: "it is a folder", BadLines: 1, Problems: bad, LeftOut: 2, Private: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, Then: "limits", Limits: []string{"0 challenge"}},
		{State: lists.State{Name: "drop", Ranges: 1000, Changed: noon.Add(-time.Hour), Read: noon}, Then: "block", Day: lists.Hits{Met: 1234, Stopped: 1234}},
		{State: lists.State{Name: "ours", Ranges: 1}, Then: "allow"},
	}
	return v
}

// locked is the look-up of an account that is closed to strangers.
func locked() LookUpView {
	return LookUpView{
		Admin: around("/lookup"),
		LookUp: LookUp{Account: hostile, Address: hostile, Result: &control.LookUp{Attacks: []attacks.Brief{{ID: "20260314-1150-abcd", Kind: attacks.Site, Began: noon}},
			Now: noon, Said: "You are blocked.", Next: "Unblock them.", Account: &accounts.Standing{State: accounts.Active, Kept: "authguard"}, Unnamed: 2, Forgotten: noon,
			Entry:   &lists.Entry{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Verdict: lists.Block, Note: hostile, CreatedBy: hostile},
			Places:  []control.KnownClient{{Address: netip.MustParseAddr("192.0.2.1"), Last: noon}, {Address: netip.MustParseAddr("192.0.2.2"), Spent: true, Shared: true, Last: noon}},
			Devices: []control.Use{{Address: "192.0.2.3", Last: noon}}, Sessions: 2,
			Recent: slices.Repeat([]control.Event{{Row: audit.Row{At: noon, Account: hostile, Address: hostile, Count: 3}, What: "refused", Why: []string{"a limit", "another"}}, {Row: audit.Row{At: noon, Who: hostile}, What: "unlocked"}}, 6),
			Explanation: guard.Explanation{
				Account: hostile, Status: trusted.Known, Decision: guard.Decision{Action: guard.Challenge},
				Lines: []guard.Line{{Subject: guard.OnAccount, Used: 5, Full: true, FreeIn: time.Hour, Limit: guard.Limit{
					Failures: 5, Window: 24 * time.Hour, Action: guard.Challenge, Monitor: true,
				}}},
			}}},
	}
}

// audited is the page of the audit log with a row of each kind, of a search that goes on.
func audited() AuditView {
	v := AuditView{Admin: around("/audit"), Problem: AuditProblem("Since: cannot read \"x\". Try 17 Nov 2026 or 7d."), Query: control.AuditQuery{Account: hostile, Address: hostile, Who: hostile, What: hostile, Since: hostile, Until: hostile, Kind: audit.KindAdmin, Before: 7, Zone: "Local"}}
	rows := []audit.Row{
		{At: noon, Last: noon.Add(time.Minute), Kind: audit.KindAttempt, Decision: "failed", Address: "198.51.100.0/24", Count: 5400, Detail: "login, summed up"},
		{At: noon, Kind: audit.KindAttempt, Decision: "succeeded", Account: hostile, Address: "198.51.100.7", Count: 1, Detail: "login, unknown client"},
		{At: noon, Kind: audit.KindAdmin, Decision: hostile, Account: hostile, Address: hostile, Who: hostile, Detail: hostile, Reasons: hostile, Count: 1},
		{At: noon, Kind: audit.KindMode, Decision: "on", Reasons: "forced", Who: hostile, Detail: "from off; " + hostile, Count: 1},
	}
	for _, r := range rows {
		v.Rows = append(v.Rows, control.Event{Row: r, What: "what", Why: []string{hostile}, Reason: []string{"CAPTCHA mode, 1 more", "", hostile}[len(v.Rows)%3], Summed: r.Summed()})
	}
	v.Next = 6
	return v
}

// hour is sixty minutes whose last twenty are an attack of so many a minute.
func hour(attack int) []captchamode.Minute {
	points := make([]captchamode.Minute, 60)
	for i := range points {
		points[i] = captchamode.Minute{Start: noon.Truncate(time.Minute).Add(time.Duration(i-59) * time.Minute),
			Failures: 2 + i%3, Threshold: 60, SlowAt: 20, LeaveAt: 30}
		if i >= 40 {
			points[i].Unsolved, points[i].Overload, points[i].On, points[i].Level = attack, attack/4, true, captchamode.Attack
		}
	}
	return points
}

func text(t *testing.T, draw func() ([]byte, error)) string {
	t.Helper()
	page, err := draw()
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func parse(t *testing.T, draw func() ([]byte, error)) *html.Node {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(text(t, draw)))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// eachPage runs a claim over every sample.
func eachPage(t *testing.T, claim func(t *testing.T, doc *html.Node)) {
	t.Helper()
	for name, draw := range samples() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim(t, parse(t, draw))
		})
	}
}

// elements are all nodes with one of the tags; without tags, all elements.
func elements(doc *html.Node, tags ...string) []*html.Node {
	var out []*html.Node
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		match := len(tags) == 0
		for _, tag := range tags {
			match = match || n.Data == tag
		}
		if match {
			out = append(out, n)
		}
	}
	return out
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, key string) bool {
	for _, a := range n.Attr {
		if a.Key == key {
			return true
		}
	}
	return false
}

func inner(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.TrimSpace(b.String())
}

var notANumber = math.NaN()

// deadChannels are one that works and one that does not, after a long night.
// watchedPolicy is a policy of which a part only watches, and somebody is about to say so
// of all.
func watchedPolicy() PolicyView {
	override := policy.Override{LimitSet: "account", Who: hostile, Why: hostile, Since: noon, Until: noon.Add(time.Hour)}
	met := policy.Effect{Attempts: 1234, Accounts: 14, Addresses: 9, Later: 1}
	return PolicyView{Admin: around("/policy"), Switch: "all", To: "monitor", Policy: policy.View{
		Now: noon, Enforce: true, Written: true, Overrides: []policy.Override{override}, Monitored: []string{"account", "list:tor"},
		Mode: captchamode.State{Threshold: 45, SlowAt: 15, Normal: 9, WouldBeOn: true}, Numbers: policy.ModeNumbers{Factor: 5, Floor: 30, Ceiling: 500},
		LimitSets: []policy.LimitSet{
			{Name: "account", Override: &override, Configured: "5/24h challenge", Limits: []policy.LimitState{
				{Source: "/etc/authguard/authguard.yaml:14", Limit: "5/24h challenge", Failures: 5, Window: 86400, Then: "challenge", Monitored: true, Code: "limit:account:5/24h", Stopped: met, Would: met},
				{Limit: "7/24h block", Gone: true, Code: "limit:account:7/24h", Stopped: met},
			}},
			{Name: "network", Override: &policy.Override{LimitSet: "network", Limits: "90/1m challenge"}, Configured: "60/1m challenge", Limits: []policy.LimitState{{Source: policy.SourceOverride, Limit: "90/1m challenge", Failures: 90, Window: 60, Then: "challenge"}}},
			{Name: "pair-delay", Limits: []policy.LimitState{{Source: "default", Limit: "after 3 in 1h: 1s, doubling up to 20s", Then: "delay"}}},
			{Name: "mode", Limits: []policy.LimitState{{Limit: "challenge", Then: "challenge", Code: "captcha-mode"}, {Limit: "wait", Then: "delay", Code: "throttled"}}},
			{Name: "list:tor", Limits: []policy.LimitState{{Limit: "0 challenge", Then: "challenge", Monitored: true, Code: "list:tor"}, {Limit: "block", Then: "block", Monitored: true, Code: "blocked:tor"}}},
			{Name: "event:sms", Limits: []policy.LimitState{{Limit: "5/1h block by account", Failures: 5, Window: 3600, Then: "block", By: "account"}}},
		},
	}}
}

// tried are numbers that stop more, or that cannot be an override.
func tried(refused bool) TryView {
	override := &policy.Override{LimitSet: "account", Limits: "8/24h challenge, 100/24h block", Who: hostile, Why: hostile, Since: noon, Until: noon.Add(time.Hour)}
	v := TryView{Admin: around("/policy/try"), Fresh: !refused, Limits: "3/24h challenge, 100/24h block"}
	v.Set = policy.LimitSet{Name: "account", Override: override, Configured: "5/24h challenge, 100/24h block"}
	v.Trial = &control.Trial{LimitSet: "account", Limits: v.Limits, InForce: override.Limits, YAML: "limits:\n  account:\n    - 3/24h challenge\n    - 100/24h block\n",
		From: noon.Add(-7 * 24 * time.Hour), To: noon, Partial: true, Counted: 12345, Stopped: 1, Summed: 300}
	v.Trial.Tried.Guesses.Stopped, v.Trial.Tried.Logins.People, v.Trial.Tried.ModeOn = [3]int64{1200, 3, 4}, 1, 90*time.Minute
	if refused {
		v.Problem, v.Refused = "limits.account[0]: must be like 10/1m challenge, not \"<b>\".", "An override needs a limit that blocks at 1000 or fewer failures in 24 hours."
	}
	return v
}

func deadChannels() AlertsView {
	return AlertsView{Admin: around("/alerts"), Alerts: control.Alerts{
		Channels: []alerts.Channel{
			{Name: "smtp mail.example.org", State: "working", Delivered: 12, Hour: 3, PerHour: 20, Last: noon.Add(-time.Minute), LastTitle: "authguard: CAPTCHA mode is on"},
			{
				Name: "ops web hook", State: "dead", Kinds: []alerts.Kind{alerts.ModeOn, alerts.ModeOff}, Waiting: 1234, PerHour: 20, Next: noon.Add(time.Hour),
				Since: noon.Add(-time.Hour), Tries: 17, Why: "the server answered 502 Bad Gateway",
			},
			{Name: "ntfy ntfy.sh", State: "unused", PerHour: 20},
		},
		Recent: []alerts.Record{
			{Alert: alerts.Alert{ID: 2, At: noon, Kind: alerts.AccountAttacked, Title: "Brute force against an account", Body: "account " + alerts.Name(hostile) + "\nsecond line"}, Count: 31},
			{Alert: alerts.Alert{ID: 1, At: noon.Add(-26 * time.Hour), Kind: alerts.ModeOn, Title: "CAPTCHA mode is on", Body: hostile}, Count: 1},
		},
		More: true,
	}}
}

// steering are administrators in every state, and tokens of both kinds.
func steering() AdministratorsView {
	v := AdministratorsView{Admin: around("/administrators"), Fresh: true}
	v.User = "ann"
	of := func(id, name string) control.Administrator {
		return control.Administrator{Account: accounts.Account{ID: id, Username: name, Role: accounts.Admin, CreatedAt: noon.Add(-time.Hour)}}
	}
	ann, bob, eve := of("1", "ann"), of("2", hostile), of("3", strings.Repeat("e", 300))
	bob.Kept = mfa.Kept{TOTP: &mfa.TOTP{}, Recovery: 3, Passkeys: []mfa.Passkey{{ID: "x", Name: hostile, Cloned: noon}}}
	bob.Running, bob.Sessions, bob.LastLogin, bob.MustChange = []sessions.Session{{ID: "x", Agent: hostile, Address: "192.0.2.7", Started: noon, Seen: noon}}, 1, noon, true
	eve.Disabled = true
	v.All = []control.Administrator{ann, bob, eve}
	v.Tokens = []accounts.Token{
		{Realm: "default", Name: "shop", CreatedBy: hostile, CreatedAt: noon},
		{Realm: "default", Name: "ci", Scopes: []operation.Scope{operation.Read, operation.Lists}, CreatedAt: noon, ExpiresAt: noon.Add(time.Hour), UsedAt: noon},
		{Realm: "gold", Name: "old", Scopes: []operation.Scope{operation.Read}, Confined: true, CreatedAt: noon, ExpiresAt: noon.Add(-time.Hour)},
	}
	return v
}

// secured is an administrator with everything, who is just setting up an app.
func secured() SecurityView {
	v := SecurityView{Admin: around("/security"), Fresh: true, PasskeysHere: true, Codes: []string{"abcd-efgh-ijkl-mnop"}}
	v.App = mfa.Enrolment{Secret: "ABCDEFGHIJKLMNOP", QR: []byte("a picture")}
	v.AppWrong, v.TOTP, v.Recovery = true, &mfa.TOTP{Created: noon, Used: noon}, 10
	v.Passkeys = []mfa.Passkey{{ID: "x", Name: hostile, Host: "localhost", Created: noon, Cloned: noon}}
	v.Sessions = []OwnSession{{Session: sessions.Session{ID: "x", Agent: hostile, Address: "192.0.2.7", Started: noon, Seen: noon, Ends: noon}, This: true},
		{Session: sessions.Session{ID: "y", Agent: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36", Address: "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", Started: noon, Seen: noon, Ends: noon}}}
	return v
}

// attackOf is an attack that ended, or is running.
func attackOf(ended time.Time, lost, open int) attacks.Attack {
	top := []attacks.Named{{Name: hostile, Attempts: 1234}, {Name: "198.51.100.7", Attempts: 1}}
	a := attacks.Attack{ID: "20260314-1150-abcd", Realm: "shop", Kind: attacks.Account, Subject: hostile, Began: noon.Add(-time.Hour), Last: noon, Ended: ended,
		Shapes: []string{attacks.OneAccount, attacks.Spraying, attacks.Botnet}, Attempts: 12345, Peak: attacks.Peak{At: noon, Attempts: 600}, Sources: attacks.Sources{Addresses: 800, Networks: 20, Accounts: 700, Passwords: 3, TopAddresses: top, TopNetworks: top, TopAccounts: top},
		Minutes: attacks.Minutes{Each: 1, Counts: map[int64]int64{}}, Compromised: attacks.Compromised{Lost: lost, Open: open, Strange: 1}}
	a.Going = ended.IsZero()
	a.Counts = attacks.Counts{Failed: 12000, Challenged: 300, Waited: 40, Refused: 5, Known: 12000, Repeated: 9, Sprayed: 11000}
	for i := range int64(40) {
		a.Minutes.Counts[noon.Unix()/60-i] = i * i
	}
	return a
}

// attackedOften is the list of attacks with everything in it.
func attackedOften() AttacksView {
	v := AttacksView{Admin: around("/attacks"), Attacks: control.Attacks{Total: 60, Page: 2, Limit: 20}}
	v.Attacks.Attacks = []attacks.Attack{attackOf(time.Time{}, 0, 0), attackOf(noon, 3, 1), attackOf(noon, 2, 0), {ID: "x", Kind: attacks.Site, Began: noon.Add(-26 * time.Hour), Last: noon.Add(-26 * time.Hour), Ended: noon.Add(-25 * time.Hour)},
		{ID: "y", Kind: attacks.Site, Began: noon.Add(-time.Hour), Last: noon.Add(-time.Minute)}}
	return v
}

// lostIn is an attack in which accounts were lost.
func lostIn(lost int, noPassword string) AttackView {
	v := AttackView{Admin: around("/attacks"), Page: 2, Report: control.AttackReport{Attack: attackOf(noon, lost, lost-1), NoPassword: noPassword}}
	v.Report.PartOf = "20260314-1155-efgh"
	for i := range lost + 1 {
		victim := attacks.Victim{Account: hostile, Lost: i < lost, Logins: []attacks.Login{{Account: hostile, Address: "198.51.100.9", First: noon, Last: noon, Failures: 5,
			Why: []string{attacks.AfterFailures, attacks.FromGuesser, attacks.WithSprayed}}}}
		if i%3 == 1 {
			victim.Done = []attacks.Reset{{What: attacks.Sessions, At: noon, Who: "admin:" + hostile, Why: hostile}}
		}
		victim.Usual, victim.UsualAt = map[bool]string{true: "192.0.2.7"}[i%2 == 0], noon.Add(-30*time.Hour)
		victim.Username, victim.Administrator, victim.NoEmail = v.User, i%10 == 3, i%10 == 4
		v.Report.Victims = append(v.Report.Victims, victim)
	}
	return v
}
