#compdef authguard
# zsh completion for authguard: source <(authguard completion zsh)
_authguard() {
	local -a all
	all=("${(@f)$(${~words[1]} complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	all=("${(@)${(@)all//:/\\:}/$'\t'/:}")
	[[ -n $all[1] ]] && _describe authguard all || _files
}
if [[ $funcstack[1] = _authguard ]]; then
	_authguard "$@" # autoloaded from a file of this name
else
	compdef _authguard authguard
fi
