// Package lists keeps the administrators' allow and block lists in the SQL
// database. Asking them for every attempt is guard's, from a copy in memory.
package lists
