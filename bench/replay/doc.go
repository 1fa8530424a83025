// Package replay measures how fast `authguard limit replay` reads logs and tries policies on
// them, beside GoAccess's parsing of the same files and beside reading lines and nothing
// else. Processor time is what counts: it says the same on a busy machine.
package replay
