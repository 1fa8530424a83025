# What a Shell of doctest has beside bash: serve goes to the background when it is
# ready, and a status of curl that no document can mean is an error.
mkdir -p /mnt/bin /mnt/make
unset MAKELEVEL MAKEFLAGS MFLAGS # of the make that runs the tests
ln -sf "$PRODUCT" /mnt/bin/authguard
printf '#!/bin/sh\ncp "$PRODUCT" bin/authguard\n' >/mnt/make/go # stands for go build in make build
chmod +x /mnt/make/go
PATH=/mnt/bin:$PATH:/usr/sbin:/sbin

serve() {
	end
	: >/mnt/serve
	command "$@" >/mnt/serve 2>&1 &
	server=$!
	until grep -Eq 'user create alice$|^Show the status: .* status$' /mnt/serve; do # its last words when it starts
		kill -0 $server 2>/dev/null || { server=; cat /mnt/serve; return 1; }
		sleep 0.05
	done
	cat /mnt/serve
}

end() {
	[ -n "${server-}" ] || return 0
	kill "$server"
	wait "$server" || :
	server=
}
trap 'end; kill $(jobs -p) 2>/dev/null' EXIT

authguard() {
	local word
	for word; do
		[ "$word" != serve ] || { serve authguard "$@"; return; }
	done
	command authguard "$@"
}

make() {
	[ "$1" = run ] || { command make -n -f "$ROOT/Makefile" "$@"; return; }
	PATH=/mnt/make:$PATH command make -s -f "$ROOT/Makefile" build
	serve $(command make -n -f "$ROOT/Makefile" run | tail -n 1)
}

curl() {
	command curl -sS -w '%{stderr}%{http_code}\n' "$@" 2>/mnt/curl || { cat /mnt/curl; return 1; }
	case $(tail -n 1 /mnt/curl) in
	400 | 404 | 405 | 406 | 415 | 5*) echo "curl: $(cat /mnt/curl)"; return 1 ;;
	esac
}

python3() { # -m http.server PORT stands for somebody's app
	[ "${2-}" = http.server ] || { command python3 "$@"; return; }
	command python3 "$@" &
	until (exec 3<>"/dev/tcp/127.0.0.1/$3") 2>/dev/null; do
		kill -0 $! || return 1
		sleep 0.05
	done
}

sudo() { "$@"; }
