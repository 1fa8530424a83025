# bash completion for authguard: source <(authguard completion bash)
_authguard() {
	local IFS=$'\n'
	COMPREPLY=($("${1/#\~/$HOME}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1))
}
complete -o default -F _authguard authguard
