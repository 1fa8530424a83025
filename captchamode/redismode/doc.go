// Package redismode makes the CAPTCHA modes of any number of nodes one, over
// Redis: one pressure, one learned normal, one switch on and one off.
//
// Each node goes on answering from its own captchamode.Mode, without a trip.
// Four times a second it tells Redis what it has observed, in one script, and
// hears how much there is on the whole site and what the nodes have agreed on.
// There is no leader: whichever node hears first that the level has to change
// writes the new version in the place of the one that it read, and the others
// take it over with their next flush. So a switch has one author, and that node
// keeps its record.
//
// While Redis is gone each node keeps the level and goes by what it sees itself,
// with its part of the limits (R22). Afterwards the higher level holds, and the
// cool-down begins at the later moment.
//
// All times are Redis's own; a node's clock may be wrong.
package redismode
