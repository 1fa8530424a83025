package control

import (
	"slices"

	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/lists"
	"authguard/internal/operation"
	"authguard/internal/policy"
)

// Operations returns the table of operations.
func Operations() []Operation {
	return slices.Concat(modeOperations(), subjectOperations(), listOperations(), userOperations(), passwordOperations(),
		attackOperations(), administratorOperations(), ownOperations(), tokenOperations())
}

func modeOperations() []Operation {
	return []Operation{{
		Name: "captcha", Route: "PUT /mode", Scope: operation.Mode, Request: request[policy.SetMode],
		Forms: []Form{{Path: "/mode", Default: map[string]string{"reason": policy.NoReason}}},
		Commands: []Command{{
			Name: "captcha enable", Help: "Force CAPTCHA mode on for a time", Reason: true,
			Example: "--for 2h --reason 'botnet announced'", Set: map[string]string{"mode": "on"},
			Says: "CAPTCHA mode is on until {{soon .Q.For}}. It then follows the failure rate again; " +
				"`authguard captcha auto` ends it sooner.",
		}, {
			Name: "captcha disable", Help: "Force CAPTCHA mode off for a time", Reason: true,
			Example: "--for 30m --reason 'load test'", Set: map[string]string{"mode": "off"},
			Says: "CAPTCHA mode is off until {{soon .Q.For}}. It then follows the failure rate again; " +
				"`authguard captcha auto` ends it sooner.",
		}, {
			Name: "captcha auto", Help: "Return CAPTCHA mode to the failure rate", Set: map[string]string{"mode": "auto"},
			Flags: flags[operation.Because], Says: "CAPTCHA mode follows the failure rate again.",
		}, {
			Name: "captcha reset", Help: "Reset the failure rate and end the cool-down", Example: "--reason 'load test'",
			Set: map[string]string{"mode": "clear"}, Flags: flags[operation.Because],
			Says: "The failure rate and the cool-down are reset on all nodes. If the attack continues, CAPTCHA mode turns " +
				"on again; `authguard captcha disable` keeps it off.",
		}},
	}, {
		Name: "policy", Route: "PUT /policy", Scope: operation.Policy, Request: request[policy.SwitchPolicy],
		Forms: []Form{{Path: "/policy"}},
		Commands: []Command{{
			Name: "limit monitor", Help: "Monitor limits: log and alert, but do not block", Reason: true,
			Example: "account --for 7d --reason 'test the limit'", Set: map[string]string{"to": policy.ToWatch},
			Says: "{{limits .Q.LimitSet}} is only monitored and blocks no one, on all nodes within a second, " +
				"{{ends .Q.For .Q.LimitSet}}",
		}, {
			Name: "limit enforce", Help: "Enforce limits", Reason: true, Example: "account --reason 'tested'",
			Set:  map[string]string{"to": policy.ToEnforce},
			Says: "{{limits .Q.LimitSet}} is enforced, on all nodes within a second, {{ends .Q.For .Q.LimitSet}}",
		}, {
			Name: "limit reset", Help: "Return limits to the configuration", Reason: true,
			Example: "all --reason 'configured now'", Set: map[string]string{"to": policy.ToFile}, Flags: flags[limitReset],
			Says: "{{limits .Q.LimitSet}} follows the configuration again, on all nodes within a second.",
		}},
	}, {
		Name: "policy-limits", Did: "limits overridden", Route: "PUT /policy/limits", Scope: operation.Policy,
		Request: request[policy.SetLimits], Forms: []Form{{Path: "/policy/limits"}},
		Commands: []Command{{
			Name: "limit set", Help: "Override the numbers of limits for a time", Reason: true,
			Example: "account '10/24h challenge, 100/24h block' --for 24h --reason 'exam week'",
			Says: "The limits of {{.Q.LimitSet}} are {{.Q.Limits}} until {{soon .Q.For}}, on all nodes within a second; " +
				"`authguard limit reset {{.Q.LimitSet}}` ends it sooner.",
		}},
	}, {
		Name: "alert-test", Did: "test message sent", Route: "POST /alerts/test", Scope: operation.Alerts, Where: AllRealms,
		Request: request[alerts.SendTest], Forms: []Form{{Path: "/alerts/test"}},
	}}
}

// limitReset are the flags of limit reset.
type limitReset struct {
	LimitSet string `json:"limit" arg:"" name:"limits" help:"Limits as limit list names them, or all"`
	operation.Because
}

func flags[F any]() any { return new(F) }

func subjectOperations() []Operation {
	return []Operation{{
		Name: "unlock", Did: "failure counters reset", Route: "POST /unlock", Scope: operation.Unlock,
		Request: request[policy.Unlock], Forms: []Form{{Path: "/unlock", Set: map[string]string{"event": "", "subject": "",
			"known_clients": ""}}},
		Commands: []Command{{
			Name: "unlock", Help: "Reset the counters of an account, IP address or network", Example: "--account alice",
			Says: `{{with .Q}}{{if .Event}}The counters of event {{.Event}} are reset.` +
				`{{else if .Network}}The counters of the network {{.Network}} are reset.` +
				`{{else if and .Account .Address}}The counters of {{quote (printf "%s from %s" .Account .Address)}} are reset` +
				`{{else}}The counters of {{quote (print .Account .Address)}} are reset{{end}}{{end}}` +
				`{{if not (or .Q.Event .Q.Network)}}{{with .A.note}}, if there were any: {{.}}{{end}}.{{end}}`,
		}},
	}, {
		Name: "known-clients-remove", Did: "known clients removed", Route: "POST /forget", Scope: operation.Unlock,
		Request: request[accounts.RemoveKnownClients], Forms: []Form{{Path: "/forget"}},
	}}
}

func listOperations() []Operation {
	return []Operation{{
		Name: "block", Did: "blocked", Route: "POST /lists", Scope: operation.Lists, Where: AllRealms,
		Request: request[lists.ListRange], Forms: []Form{{Path: "/list", Set: map[string]string{"force": ""},
			Alias: map[string]string{"note": "reason"}}},
	}, {
		Name: "block-import", Did: "ranges blocked", Route: "POST /lists/import", Scope: operation.Lists, Where: AllRealms,
		MaxBody: 2 * lists.MaxImport, Request: request[lists.ImportLists], // allows it with every line break escaped
	}, {
		Name: "unlist-many", Did: "list entries removed", Route: "DELETE /lists/many", Scope: operation.Lists,
		Where: AllRealms, Request: request[lists.UnlistMany], Forms: []Form{{Path: "/lists/unlist"}},
	}, {
		Name: "relist", Did: "list entries restored", Where: AllRealms, Request: request[lists.RestoreEntries],
		Forms: []Form{{Path: "/lists/restore"}},
	}, {
		Name: "prolong", Did: "list entry extended", Route: "POST /lists/prolong", Scope: operation.Lists, Where: AllRealms,
		Request: request[lists.Prolong], Forms: []Form{{Path: "/lists/prolong", Notice: "Extended:"}},
	}, {
		Name: "unlist", Did: "list entry removed", Route: "DELETE /lists", Scope: operation.Lists, Where: AllRealms,
		Request: request[lists.Unlist], Forms: []Form{{Path: "/lists/remove", Notice: "Removed from the list:"}},
		Commands: []Command{{
			Name: "ip remove", Help: "Remove an IP address or range from the lists", Example: "198.51.100.7",
			Says: "{{.Q.CIDR}} is removed from the IP lists.",
		}},
	}}
}

func userOperations() []Operation {
	return []Operation{{
		Name: "user-add", Did: "account added", Route: "POST /users", Created: true, Scope: operation.Accounts,
		Alert: alerts.AdministratorAdded, Request: request[accounts.AddUser],
		Forms: []Form{{Path: "/accounts/add", Set: map[string]string{"role": string(accounts.User), "generate": "true",
			"password": "", "must_change": ""}}},
	}, {
		Name: "user-import", Did: "accounts imported", Route: "POST /users/import", Scope: operation.Accounts,
		Request: request[accounts.ImportUsers],
	}, {
		Name: "user-groups", Did: "groups changed", Route: "POST /users/groups", Scope: operation.Accounts,
		Request: request[accounts.SetGroups],
		Commands: []Command{{
			Name: "user set-groups", Help: "Set the groups of an account", Example: "alice staff editors",
			Says: `{{if .Q.None}}{{quote .Q.Username}} has no groups any more.{{else}}Groups of {{quote .Q.Username}}: ` +
				`{{join .Q.Groups}}. They apply from the next request on.{{end}}`,
		}},
	}, {
		Name: "user-disable", Did: "disabled", Route: "POST /users/disable", Scope: operation.Accounts,
		Request: request[accounts.DisableUser], Forms: []Form{
			{Path: "/accounts/disable", Users: true, Notice: "Disabled and signed out:"},
			{Path: "/administrators/disable", Notice: "Disabled and signed out:", Set: map[string]string{"enable": ""}},
			{Path: "/administrators/enable", Set: map[string]string{"enable": "true"}},
		},
		Commands: []Command{{
			Name: "user enable", Help: "Enable a disabled account", Example: "alice", Set: map[string]string{"enable": "true"},
			Says: "{{quote .Q.Username}} can sign in again.",
		}, {
			Name: "user disable", Help: "Disable an account and end its sessions", Example: "alice",
			Says: "{{quote .Q.Username}} is disabled. Its password is answered as wrong, and its sessions have ended.",
		}},
	}, {
		Name: "user-delete", Did: "deleted", Route: "DELETE /users", Scope: operation.Accounts,
		Request: request[accounts.DeleteUser],
		Commands: []Command{{
			Name: "user delete", Help: "Delete an account for good", Example: "alice --reason left",
			Says: "{{quote .Q.Username}} is deleted. Its sessions have ended, and its known clients and codes are removed.",
		}},
	}, {
		Name: "user-sessions", Did: "sessions ended", Route: "DELETE /users/sessions", Scope: operation.Accounts,
		Request: request[accounts.EndUserSessions],
		Forms:   []Form{{Path: "/lookup/sessions", Alias: map[string]string{"username": "account"}}},
		Commands: []Command{{
			Name: "user sign-out", Help: "Revoke all sessions of a user", Example: "alice",
			Says: "{{quote .Q.Username}} is signed out: {{.A.ended}} sessions have ended. Known clients are kept; remove " +
				"them with: authguard unlock --account NAME --known-clients",
		}},
	}}
}

func passwordOperations() []Operation {
	return []Operation{{
		Name: "user-set-password", Did: "password changed", Route: "POST /users/set-password", Scope: operation.Accounts,
		Request: request[accounts.SetPassword],
		Forms: []Form{{Path: "/accounts/password", Users: true, Set: map[string]string{"generate": "true",
			"must_change": ""}}},
	}, {
		Name: "user-ask-password", Did: "password change forced", Route: "POST /users/ask-password",
		Scope: operation.Accounts, Request: request[accounts.AskPassword],
		Forms: []Form{{Path: "/accounts/ask-password", Users: true, Notice: "Signed out everywhere. A verification " +
			"code and the current password are needed to choose a new password for"}},
	}, {
		Name: "user-create-code", Did: "verification code created", Route: "POST /users/create-code",
		Scope: operation.Accounts, Request: request[accounts.CreateCode],
		Forms: []Form{{Path: "/pass", Alias: map[string]string{"username": "account"}}},
		Commands: []Command{{
			Name: "user create-code", Help: "Create a verification code for a new client", Example: "alice --for 30m",
			Says: `Verification code for {{quote .A.account}}, shown once: {{.A.code}}
Give it to the account's owner only, after verifying who it is.
On the sign-in page it goes into "Verification code", with user name and password.
It is valid once, for the first client that uses it, until {{clock .A.expires}}.`,
		}},
	}}
}

func administratorOperations() []Operation {
	return []Operation{{
		Name: "admin-add", Did: "administrator added", Route: "POST /administrators", Created: true, Scope: operation.Admin,
		Where: MainRealm, Reason: "it grants access to everything", Alert: alerts.AdministratorAdded,
		Request: request[accounts.AddAdministrator],
		Forms:   []Form{{Path: "/administrators/add"}},
		Commands: []Command{{
			Name: "admin add", Help: "Add an administrator (prints a temporary password)",
			Example: "carol --reason 'on call'",
			Says:    "{{quote .A.username}} is an administrator. Temporary password, shown once: {{.A.password}}",
		}},
	}, {
		Name: "admin-remove", Did: "administrator removed", Route: "DELETE /administrators", Scope: operation.Admin,
		Where: MainRealm, Reason: "it locks an administrator out", Request: request[accounts.RemoveAdministrator],
		Forms: []Form{{Path: "/administrators/remove", Notice: "Admin role removed:"}},
		Commands: []Command{{
			Name: "admin remove", Help: "Remove the administrator role and keep the account", Example: "carol --reason left",
			Says: "{{quote .Q.Username}} is no longer an administrator. Their sessions, MFA and tokens are revoked.",
		}},
	}, {
		Name: "admin-passwd", Did: "password reset", Route: "POST /administrators/password", Scope: operation.Admin,
		Where: MainRealm, Reason: "the new password grants access", Request: request[accounts.ReplacePassword],
		Forms: []Form{{Path: "/administrators/password"}},
		Commands: []Command{{
			Name: "admin reset-password", Help: "Reset a password (prints a temporary one)",
			Example: "carol --reason 'forgotten'",
			Says:    "Temporary password of {{quote .Q.Username}}, shown once: {{.A.password}}",
		}},
	}, {
		Name: "mfa-reset", Did: "MFA removed", Route: "POST /administrators/mfa", Scope: operation.Admin, Where: MainRealm,
		Reason: "it removes the account's protection", Alert: alerts.SecondFactorRemoved,
		Request: request[accounts.ResetFactors],
		Forms:   []Form{{Path: "/administrators/mfa", Notice: "MFA removed and sessions ended:"}},
		Commands: []Command{{
			Name: "admin reset-mfa", Help: "Remove app, passkeys and recovery codes; end sessions",
			Example: "carol --reason 'lost phone'",
			Says: "MFA of {{quote .Q.Username}} is removed and all sessions have ended. Set up MFA again at the next " +
				"sign-in: /security.",
		}},
	}, {
		Name: "session-end", Did: "session ended", Route: "DELETE /administrators/sessions", Scope: operation.Admin,
		Where: MainRealm, Request: request[accounts.EndSessions],
		Forms: []Form{{Path: "/administrators/sessions/end", Notice: "All sessions ended:"}},
		Commands: []Command{{
			Name: "admin sign-out", Help: "Revoke all sessions of an administrator", Example: "carol --reason 'lost laptop'",
			Flags: flags[accounts.AllSessions], Says: "All sessions of {{quote .Q.Username}} have ended.",
		}},
	}}
}

func ownOperations() []Operation {
	return []Operation{{
		Name: "totp-begin", Did: "authenticator app setup started", Route: "POST /security/totp", Where: OwnAccount,
		Request: request[accounts.BeginTOTP], Forms: []Form{{Path: "/security/app"}},
	}, {
		Name: "totp-add", Did: "authenticator app added", Route: "POST /security/totp/confirm", Where: OwnAccount,
		Proves: true, Request: request[accounts.ConfirmTOTP], Forms: []Form{{Path: "/security/app/confirm",
			Notice: "Your app is set up. From now on, you need a code from it to sign in."}},
	}, {
		Name: "totp-remove", Did: "authenticator app removed", Route: "DELETE /security/totp", Where: OwnAccount,
		Alert: alerts.SecondFactorRemoved, Request: request[accounts.RemoveTOTP],
		Forms: []Form{{Path: "/security/app/remove", Notice: "The app was removed."}},
	}, {
		Name: "passkey-rename", Did: "passkey renamed", Route: "PUT /security/passkeys", Where: OwnAccount,
		Request: request[accounts.RenamePasskey],
	}, {
		Name: "passkey-remove", Did: "passkey removed", Route: "DELETE /security/passkeys", Where: OwnAccount,
		Alert: alerts.SecondFactorRemoved, Request: request[accounts.RemovePasskey],
		Forms: []Form{{Path: "/security/passkeys/remove", Notice: "The passkey was removed."}},
	}, {
		Name: "recovery-codes", Did: "recovery codes created", Route: "POST /security/recovery-codes", Where: OwnAccount,
		Request: request[accounts.NewRecoveryCodes], Forms: []Form{{Path: "/security/recovery",
			Notice: "Here are your recovery codes. All earlier ones are invalid."}},
	}}
}

func attackOperations() []Operation {
	return []Operation{{
		Name: "attack-reset", Did: "secured after an attack", Route: "POST /attacks/:id/reset", Scope: operation.Accounts,
		Reason: "users who are signed out may ask", Request: request[accounts.SecureAccounts],
		Forms: []Form{{Path: "/attacks/reset"}},
	}}
}

func tokenOperations() []Operation {
	return []Operation{{
		Name: "token-add", Did: "token created", Route: "POST /tokens", Created: true, Scope: operation.Admin,
		Where: NamedRealm, Alert: alerts.TokenAdded, Request: request[accounts.CreateToken],
		Forms: []Form{{Path: "/administrators/tokens/add"}},
	}, {
		Name: "token-revoke", Did: "token revoked", Route: "DELETE /tokens", Scope: operation.Admin, Where: NamedRealm,
		Request: request[accounts.RevokeToken], Forms: []Form{{Path: "/administrators/tokens/revoke", Notice: "Revoked:"}},
		Commands: []Command{{
			Name: "token revoke", Help: "Revoke an API token", Example: "shop-backend",
			Says: "The token {{quote .Q.Name}} is revoked, on other nodes within a second.",
		}},
	}}
}
