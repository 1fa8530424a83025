wrk.method = "POST"
wrk.body = "username=nobody-in-particular&password=not-the-password"
wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
wrk.headers["Accept"] = os.getenv("BENCH_ACCEPT")
