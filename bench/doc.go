// Command bench measures authguard beside other rate limiters and lower bounds: attempts in memory and
// in Redis, the login endpoint and the decision API beside a bare handler, and the reverse proxy
// beside a bare one and nginx. bench/README.md explains the tables.
//
// It is a separate module, so the other rate limiters do not become dependencies of authguard.
package main
