// Package nodes is what makes several authguard nodes act as one over Redis,
// and lets each of them go on alone while Redis is gone (R22).
//
// A Line is the connection: it gives every command a time limit, stops asking
// after a failure, and looks by itself whether Redis is back. Counters and
// Spent are the stores that the guard uses. While the line is up they ask
// Redis; a decision that Redis fails to answer, and every one after it, is made
// from what this node has counted itself, with the limits divided by the nodes
// last seen. What was counted meanwhile is told to Redis before it is asked
// again.
package nodes
