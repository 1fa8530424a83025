// Package trusted stores the known clients of an account: the IP addresses and devices from which its user has signed
// in before.
//
// A client is known for one account only. The number of clients per account is limited, with the least recently used
// evicted first. They expire, and a password reset removes them (R14). A device is recognized by a signed cookie
// ([Cookies]) and needs no storage before its budget is spent. A shared address is never a known client
// ([SharedAddresses]).
//
// Package guard decides the exemptions and budgets of known clients.
package trusted
