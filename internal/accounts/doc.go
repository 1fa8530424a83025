// Package accounts is who may log in: authguard's own table, or somebody else's
// table or htpasswd file behind the same look-up, [Source].
//
// It promises that a user name and an e-mail address lead to one account and
// never to two, that passwords are kept as bcrypt only, and that an import takes
// all of a file or nothing. Comparing a password is package passwords'; what a
// name looks like in its one form is guard's, which hands in the normaliser.
package accounts
