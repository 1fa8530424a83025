// Package nodes is what makes several authguard nodes act as one over Redis,
// and lets each of them go on alone while Redis is gone (R22).
//
// A Line is the connection: it gives every trip a time limit, stops asking
// after a failure, and looks by itself whether Redis is back. Counters and
// Spent are the stores that the guard uses. While the line is up they ask
// Redis; a decision that Redis fails to answer, and every one after it, is made
// from what this node knows itself, with what is left of the limits divided by
// the nodes last seen. What was counted meanwhile is told to Redis before it is asked
// again.
//
// A Redis that has lost its memory (an empty restart, a flush) looks healthy.
// Generations notice it: a name for what Redis remembers, kept in Redis itself.
// Every node then writes down again what it charged, and the privileged places
// that it knows, and decides alone until that is done.
package nodes
