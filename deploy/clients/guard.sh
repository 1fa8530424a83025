# A login with authguard's decision API: docs/how-to/decision-api.md. login prints the status of your
# response to the client. check ACCOUNT PASSWORD is your own password check. Needs curl and jq, which
# builds the JSON, because an account name can contain any character.
ask() { # path, JSON; fails where there is no good answer in two seconds
	curl --silent --max-time 2 --fail-with-body -H "Authorization: Bearer $GUARD_TOKEN" \
		--json "$2" "${GUARD_URL:-http://127.0.0.1:8080}$1"
}

login() { # account, password, address: prints the status for the client
	decision=$(ask /v1/attempts "$(jq -n --arg account "$1" --arg address "$3" '{$account, $address}')") || {
		case $(printf %s "$decision" | jq -r .type) in
		bad-account) echo 401 ;; # such as an empty name
		'') echo 503 ;; # no answer
		*) echo "authguard answers $decision" >&2; echo 503 ;;
		esac
		return
	}
	password=$2
	case $(printf %s "$decision" | jq -r .decision) in
	proceed) ;;
	fake-failure) password=$(openssl rand -hex 16) ;; # takes as long as a wrong one
	challenge) echo 403; return ;;
	delay | block) echo 429; return ;;
	*) echo 503; return ;;
	esac
	outcome=failed
	if check "$1" "$password"; then outcome=succeeded; fi
	settled=$(ask /v1/attempts/settle "$(printf %s "$decision" | jq --arg outcome $outcome '{ticket, $outcome}')") || {
		case $(printf %s "$settled" | jq -r .type) in
		insufficient | code-required | already-settled | expired) echo 401 ;;
		'') echo 503 ;; # no answer
		*) echo "authguard answers $settled" >&2; echo 503 ;;
		esac
		return
	}
	case $outcome,$(printf %s "$decision" | jq .password_suffices) in
	succeeded,true) echo 200 ;;
	*) echo 401 ;;
	esac
}
